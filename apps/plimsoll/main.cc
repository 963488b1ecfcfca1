#include <csignal>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "plimsoll/app.h"

int main(int argc, char** argv) {
  // A limit on the size of files is an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
#if defined(__GLIBC__)
  // What a search frees it soon takes again: it is not given back to the system in between.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  return plimsoll::app::run(argc, argv);
}
