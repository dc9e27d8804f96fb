/* What the tests expect of an operating system, and examples/cortex-m7/board.c does not have: environment and clock. */
#include <stdlib.h>
#include <sys/time.h>

/* There is no environment from outside, and an emulated microcontroller is slow. */
__attribute__((constructor)) static void set_environment(void) { setenv("BIPOINTNET_SLOW", "1", 1); }

int _gettimeofday(struct timeval *time, void *zone) {
    (void)zone;
    register int r0 __asm__("r0") = 0x10; /* semihosting: SYS_CLOCK, hundredths of a second since the start */
    register const void *r1 __asm__("r1") = 0;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    time->tv_sec = r0 / 100;
    time->tv_usec = r0 % 100 * 10000;
    return 0;
}
