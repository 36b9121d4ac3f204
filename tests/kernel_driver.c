/* The kernel without Python, for the sanitizers. It includes the source; `test_kernel.py` builds it
   with -fsanitize=address,undefined, where each array ends where its memory ends.

   Whatever the batch, the level of the processor, the alignment and the neighbours, a record has
   the bits that it has alone at the lowest level. */

#include "../spdlib/_fast.c"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static uint64_t seed = 1;
static int hard;        /* records of that status, so that one knows whether it was seen */
static uint64_t digest; /* of all results, the same on all processors */

static double uniform(void) /* in [−1, 1) */
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(seed >> 11) * 0x1p-52 - 1;
}

static void *memory(size_t size) /* of exactly this size, so that nobody reads on */
{
    void *found = malloc(size ? size : 1);
    if (!found)
        exit(3);
    return memset(found, 0xa5, size ? size : 1);
}

static void expect(int truth, const char *what, int64_t n, int64_t k, int level)
{
    if (!truth) {
        printf("%s: n = %d, k = %d, level %d\n", what, (int)n, (int)k, level);
        exit(1);
    }
}

/* SPD matrices: one in five diagonal, one in three of two blocks, one in seven apart in scale. */
static void fill(double *X, int64_t n, int64_t k)
{
    for (int64_t r = 0; r < n; r++, X += k * k)
        for (int i = 0; i < k; i++)
            for (int j = 0; j <= i; j++) {
                double scale = r % 7 == 3 ? 1e-5 * (i + 1) * (j + 1) : 1, x = uniform() * scale;
                if (i != j && (r % 5 == 2 || (r % 3 == 1 && (i + j) % 2)))
                    x = 0;
                X[i * k + j] = X[j * k + i] = i == j ? (2 * k + x) * scale : x;
            }
}

static int64_t length(const request *r)
{
    return r->form == MATRICES ? r->k * r->k : r->form == VALUES ? r->k : r->k * (r->k + 1) / 2;
}

/* The results of a request in memory of their own: F, then ends, then status. */
static char *answer(request r, int level)
{
    size_t values = 8 * r.n * length(&r), size = values + 17 * r.n;
    char *whole = memory(size);
    r.F = memory(values);
    r.ends = memory(16 * r.n);
    r.status = memory(r.n);
    r.work = memory(fast_workspace(r.k));
    expect(fast_spectral(&r, level) == 0, "refused", r.n, r.k, level);
    memcpy(whole, r.F, values);
    memcpy(whole + values, r.ends, 16 * r.n);
    memcpy(whole + values + 16 * r.n, r.status, r.n);
    free(r.F);
    free(r.ends);
    free(r.status);
    free(r.work);
    return whole;
}

/* The records of a batch have the bits that they have alone, at the lowest level. */
static void alone_and_together(request r)
{
    size_t row = 8 * length(&r);
    for (int level = 0; level <= fast_level(); level++) {
        char *together = answer(r, level);
        for (int64_t i = 0; i < r.n; i++) {
            request one = r;
            one.n = 1;
            one.X = r.X + 8 * i * r.k * r.k;
            one.before = r.before ? r.before + 8 * i * r.before_step : NULL;
            char *alone = answer(one, 0);
            char status = together[(row + 16) * r.n + i];
            hard += status == HARD && level == 0;
            expect(status == alone[row + 16], "status", r.n, r.k, level);
            expect(status != FINE || !memcmp(together + row * i, alone, row), "F", r.n, r.k, level);
            expect(status == INPUT || !memcmp(together + row * r.n + 16 * i, alone + row, 16),
                   "ends", r.n, r.k, level);
            for (size_t b = 0; level == 0 && status == FINE && b < row + 17; b++)
                digest = (digest ^ (unsigned char)alone[b]) * UINT64_C(0x100000001b3);
            free(alone);
        }
        free(together);
    }
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 9, 13, 33, 64};
    static const int batches[] = {0, 1, 2, 3, 8, 9, 16, 17, 35};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            int64_t k = sizes[s], n = batches[b];
            if (k > 9 && n > 3 && n != 17)
                continue;
            double *A = memory(8 * n * k * k), *B = memory(8 * k * k), *X = memory(8 * n * k * k);
            fill(X, n, k);
            fill(A, n, k); /* of which the lower triangle counts */
            fill(B, 1, k);
            for (int f = LOG; f <= IDENTITY; f++) {
                request r = {n, k, f, (f + n + k) % 3, k * k, 0, f == EXP ? -0.03 : 0.7, 1e-14,
                             (char *)X, f % 2 ? (char *)A : NULL, n % 2 ? (char *)B : NULL,
                             NULL, NULL, NULL, NULL};
                alone_and_together(r);
            }
            free(A);
            free(B);
            free(X);
        }

    enum { K = 5, N = 11, BYTES = 8 * N * K * K };
    char *misaligned = memory(BYTES + 1), *page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 3;
    fill((double *)page, N, K);
    memcpy(misaligned + 1, page, BYTES);
    request r = {N, K, LOG, MATRICES, 0, 0, 1, 1e-14, page, NULL, NULL, NULL, NULL, NULL, NULL};
    char *right = answer(r, 0);
    mprotect(page, BYTES, PROT_READ);
    char *read_only = answer(r, fast_level());
    r.X = misaligned + 1;
    char *moved = answer(r, fast_level());
    expect(!memcmp(right, read_only, BYTES), "read-only", N, K, fast_level());
    expect(!memcmp(right, moved, BYTES), "misaligned", N, K, fast_level());
    free(right);
    free(read_only);
    free(moved);

    const double bad[] = {__builtin_nan(""), __builtin_inf(), -__builtin_inf(), 1e308};
    for (int place = 0; place < K * K; place++) /* in any place of any lane, seen by no other */
        for (int b = 0; b < 4; b++) {
            char kept[8], *entry = misaligned + 1 + 8 * (place % N * K * K + place); /* one a lane */
            memcpy(kept, entry, 8);
            memcpy(entry, bad + b, 8);
            alone_and_together(r);
            char *found = answer(r, fast_level());
            expect(b == 3 || found[(8 * K * K + 16) * N + place % N] == INPUT, "bad", N, K, b);
            free(found);
            memcpy(entry, kept, 8);
        }
    free(misaligned);

    static const int refused[] = {-1, 0, 65};
    for (int i = 0; i < 3; i++) {
        r.k = refused[i];
        expect(fast_spectral(&r, 0) == 1, "accepted", N, r.k, 0);
    }
    r.k = K;
    r.n = -1;
    expect(fast_spectral(&r, 0) == 1, "accepted", -1, K, 0);
    r.n = N;
    expect(fast_spectral(&r, fast_level() + 1) == 1, "accepted", N, K, fast_level() + 1);
    r.form = VALUES + 1;
    expect(fast_spectral(&r, 0) == 1, "accepted", N, K, 0);
    r.form = MATRICES;
    r.function = -1;
    expect(fast_spectral(&r, 0) == 1, "accepted", N, K, 0);
    printf("sound, %d hard, %016llx\n", hard, (unsigned long long)digest);
    return 0;
}
