// A program of all judges that links no search (CMakeLists.txt): it is right where it links.
#include "plimsoll/check/finding.h"

int main() { return plimsoll::check::CheckReport().is_right() ? 0 : 1; }
