/* Writes recorded.tsv: formats, arguments, and what the C library prints. `cc -w record.c && ./a.out >recorded.tsv` */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_below(uint32_t most) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % most;
}

static const int64_t integers[] = {0, 1, -1, 7, 8, 255, -300, 70000, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1l << 40};
static const double floats[] = {0.0, -0.0, 1, 2, -2.5, 0.5, 9.5, 0.25, 0.35, 9.9999996, 99999.95, 1e5, 1e6, 123456789.125,
    1e-4, 9.9999999e-5, 1e-10, -3.14159265358979, 1.9999999999, 5e-324, 2.2e-308, DBL_MAX, 1e22, 1e23, INFINITY, -INFINITY, NAN, -NAN};
static const char *texts[] = {"", "a", "words of a text", 0};
static const char *widths[] = {"", "", "1", "9", "20", "*"}, *precisions[] = {"", "", ".", ".0", ".1", ".3", ".12"};
#define ANY(of) of[random_below(sizeof of / sizeof *of)]

#define PRINT(value) (w ? snprintf(out, sizeof out, format, width, value) : snprintf(out, sizeof out, format, value))

int main(int argc, char **argv) {
    for (int rows = argc > 1 ? atoi(argv[1]) : 4000; rows--;) {
        char format[32] = "%", out[1 << 12], *end = format + 1;
        for (int flags = random_below(32), bit = 0; bit < 5; bit++)
            if (flags >> bit & 1) *end++ = "#0+- "[bit];
        const char *wide = ANY(widths), *precise = ANY(precisions);
        int width = random_below(30) - 15, w = *wide == '*';
        char kind = "ddioouxxXXcspfFeEgGgaA"[random_below(22)];
        const char *size = strchr("dioxuX", kind) ? (const char *[]){"", "", "h", "l", "ll"}[random_below(5)] : "";
        sprintf(end, "%s%s%s%c", wide, precise, size, kind);
        int64_t integer = kind == 'c' ? 'A' + random_below(26) : ANY(integers);
        double real = random_below(2) ? ANY(floats) : ldexp(random_below(1 << 30) + 1, (int)random_below(90) - 60);
        const char *text = ANY(texts);
        if (kind == 's') PRINT(text);
        else if (strchr("fFeEgGaA", kind)) PRINT(real);
        else if (kind == 'p' || *size == 'l') PRINT(integer);
        else PRINT((int)integer);
        printf("%s\t", format);
        if (w) printf("%08x ", width);
        uint64_t bits;
        memcpy(&bits, &real, 8);
        if (kind == 's') printf("%s", text ? "'" : "0000000000000000"), text && printf("%s", text);
        else if (strchr("fFeEgGaA", kind)) printf("%016lx", bits);
        else if (kind == 'p' || *size == 'l') printf("%016lx", integer);
        else printf("%08x", (int)integer);
        printf("\t%s\n", out);
    }
}
