/* The machine below newlib: reset, memory and output. Output and the exit code go to the debugger or emulator
 * (semihosting). On a board, write() sends bytes to a UART instead. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

/* From the linker script. */
extern uint32_t _data_start[], _data_end[], _data_in_flash[], _bss_start[], _bss_end[];
extern char _heap_start[], _heap_end[], _stack_end[], _stack_start[]; /* the stack grows down, to _stack_end */

extern int main(void);
extern void __libc_init_array(void);
extern void exit(int) __attribute__((noreturn));

static const unsigned char UNUSED_STACK = 0xA5;
static char *heap = _heap_start, *heap_peak = _heap_start; /* malloc gives memory back, too */

static int semihosting(int operation, const void *argument) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void print(const char *text) { semihosting(0x04, text); } /* SYS_WRITE0 */

void _exit(int code) {
    size_t free_stack = 0;
    while ((unsigned char)_stack_end[free_stack] == UNUSED_STACK) ++free_stack;
    char text[128]; /* the high-water marks */
    snprintf(text, sizeof text, "memory: static %u, heap %u, stack %u bytes\n",
             (unsigned)((char *)_data_end - (char *)_data_start + ((char *)_bss_end - (char *)_bss_start)),
             (unsigned)(heap_peak - _heap_start), (unsigned)((size_t)(_stack_start - _stack_end) - free_stack));
    print(text);
    const uint32_t reason[] = {0x20026, (uint32_t)code}; /* ADP_Stopped_ApplicationExit */
    semihosting(0x20, reason);                           /* SYS_EXIT_EXTENDED */
    for (;;) {
    }
}

void reset(void) {
    volatile uint32_t *const access = (volatile uint32_t *)0xE000ED88; /* CPACR: switch the FPU on */
    *access |= 0xFu << 20;
    __asm__ volatile("dsb\n isb");
    memcpy(_data_start, _data_in_flash, (size_t)((char *)_data_end - (char *)_data_start));
    memset(_bss_start, 0, (size_t)((char *)_bss_end - (char *)_bss_start));
    memset(_stack_end, UNUSED_STACK, (size_t)((char *)__builtin_frame_address(0) - _stack_end) - 256);
    __libc_init_array();
    exit(main());
}

static void fault(void) {
    print("error: a fault of the processor\n");
    _exit(3);
}

__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {
    (void (*)(void))_stack_start, reset, fault, fault, fault, fault, fault,
};

void *_sbrk(ptrdiff_t more) {
    if (more > _heap_end - heap) {
        errno = ENOMEM;
        return (void *)-1;
    }
    heap += more;
    if (heap > heap_peak) heap_peak = heap;
    return heap - more;
}

int _write(int file, const char *bytes, int count) {
    (void)file;
    for (int i = 0; i < count; ++i) semihosting(0x03, bytes + i); /* SYS_WRITEC */
    return count;
}

/* There are no files. */
int _open(const char *path, int flags, int mode) { return (void)path, (void)flags, (void)mode, errno = ENOENT, -1; }
int _unlink(const char *path) { return (void)path, errno = ENOENT, -1; }
int _read(int file, char *bytes, int count) { return (void)file, (void)bytes, (void)count, 0; }
int _close(int file) { return (void)file, -1; }
int _lseek(int file, int offset, int from) { return (void)file, (void)offset, (void)from, 0; }
int _isatty(int file) { return (void)file, 1; }
int _getpid(void) { return 1; }
int _kill(int process, int signal) { return (void)process, _exit(128 + signal), -1; }
int _fstat(int file, struct stat *status) {
    (void)file;
    status->st_mode = S_IFCHR;
    return 0;
}
void *__dso_handle; /* what destructors of C++ are registered with */
void _init(void) {}
void _fini(void) {}
