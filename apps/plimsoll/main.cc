#include <csignal>

#include "plimsoll/app.h"

int main(int argc, char** argv) {
  // A limit on the size of files is an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  return plimsoll::app::run(argc, argv);
}
