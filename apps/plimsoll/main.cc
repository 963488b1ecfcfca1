#include "plimsoll/app.h"

int main(int argc, char** argv) { return plimsoll::app::run(argc, argv); }
