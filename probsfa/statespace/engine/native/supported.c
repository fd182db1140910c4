/* What a process asks of the library before it calls anything else: made without the instructions that it asks about. */

int supported(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 1;
#endif
}

const char *made_of(void) { return MADE_OF; }
