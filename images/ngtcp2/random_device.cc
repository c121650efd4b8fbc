// Random numbers from the kernel for programs that would ask the CPU, preloaded into ngtcp2's: libstdc++'s
// random_device prefers RDRAND, which no seed of the lab reaches, so that no two runs were the same.
#include <sys/random.h>

#include <cstdlib>
#include <random>

std::random_device::result_type std::random_device::_M_getval() {
  result_type value;
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return value;
}
