// All that is public, in one source.
#include "plimsoll/plimsoll.h"
