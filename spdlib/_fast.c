/* Functions of small symmetric matrices, many side by side.

   F = B f(A X Aᵀ) Bᵀ for each X of a batch, with A and B lower triangular, or absent. Matrices lie
   in the lanes of vectors: entry (i, j) of WIDTH of them is one vector. Householder's reflections
   make them tridiagonal, and implicit QL with Wilkinson's shift makes them diagonal (EISPACK's tred2
   and imtql2; Martin, Reinsch and Wilkinson 1968, Dubrulle, Martin and Wilkinson 1968). Both are
   backward stable: what comes out belongs to a matrix within a small multiple of k u ‖X‖ of X,
   u = 2⁻⁵³. Side by side, this is faster than Jacobi's method from k = 2 on.

   The same bits everywhere. Lanes never meet: what happens in one depends on its own matrix alone,
   and one that is ready is left alone by a selection of bits, not by a rotation by 0, which would
   turn −0 into 0. All is made of + − × ÷ √, which IEEE 754 rounds correctly, in the order in which
   it stands here, and of powers of two. So the compiler must neither contract nor reorder
   (-ffp-contract=off, no -ffast-math), and neither the batch, nor the processor, nor how many lanes
   it has makes a difference.

   The file compiles itself once for each level of x86 processors, and once elsewhere. The caller
   owns all memory; there is no state. */

#if defined(__FAST_MATH__) || __FLT_EVAL_METHOD__ != 0 /* the latter on x87 */
#error "bits would differ between processors"
#endif

#ifndef LEVEL /* ------------------------------------------------------------- for all processors */

#include <stdint.h>
#include <string.h>

enum { LARGEST_K = 64, GROUPS = 2, ROTATIONS = 256, SWEEPS = 6 };
enum { LOG, EXP, POWER, IDENTITY };     /* log λ, exp(p λ), λ^p, λ */
enum { MATRICES, COORDINATES, VALUES }; /* F, vecd F, or f(λ) in any order */
enum { FINE, INPUT, HARD };             /* the status of a record */

typedef struct {
    int64_t n, k, function, form, before_step, after_step;
    double p, least;              /* SPD matrices with λ_min ≤ least λ_max are hard */
    const char *X;                /* n × k × k doubles, which need not be aligned */
    const char *before, *after;   /* A and B, k × k, or NULL; from one record's to the next */
    double *F, *ends;             /* results; n × 2, the smallest and the largest eigenvalue */
    unsigned char *status;        /* n of them; F means something where it is FINE */
    char *work;                   /* fast_workspace(k) bytes */
} request;

#define INLINE static inline __attribute__((always_inline))
#define HUGEST 0x1.fffffffffffffp1023
#define ROOT_2 0x1.6a09e667f3bcdp0
#define FAINT 0x1p-900 /* below it a sum of squares may have lost digits */
#define stride (k | 1) /* from row to row; at even ones rows would fight for a cache's lines */
#define LOG2_HIGH 0x1.62e42fefa38p-1 /* 42 bits, so that its multiples by exponents are exact */
#define LOG2_LOW 0x1.ef35793c7673p-45
#define AS_EXPONENT INT64_C(0x4330000000000000) /* 2⁵² + i has i in its last bits, i < 2⁵² */

/* Elements of arithmetic, on lanes x and y and masks. */
#define filled(x) ((lanes){0} + (x))
#define bits(x) ((masks)(x))
#define where(condition) ((masks)(condition))
#define only(mask, x) ((lanes)((mask) & bits(x))) /* 0 elsewhere */
#define pick(mask, x, y) ((lanes)(((mask) & bits(x)) | (~(mask) & bits(y))))
#define absolute(x) ((lanes)(bits(x) & INT64_MAX))
#define signed_as(x, y) ((lanes)((bits(x) & INT64_MAX) | (bits(y) & INT64_MIN)))
#define upper(x) ((lanes)(bits(x) & -0x8000000)) /* 26 of 53 bits: products are exact */
#define integer(x) (((x) + 0x1.8p52) - 0x1.8p52)
#define power_of_two(n) ((lanes)((naturals)((n) + (0x1.8p52 + 1023)) << 52))
#define larger(x, y) pick(where((x) > (y)), x, y)
#define smaller(x, y) pick(where((x) < (y)), x, y)

/* What is made once for each processor and used all over; the rest says LEVEL where it stands. */
#define lanes LEVEL(lanes)
#define masks LEVEL(masks)
#define naturals LEVEL(naturals)
#define rotation LEVEL(rotation)
#define group LEVEL(group)
#define root LEVEL(root)
#define dot LEVEL(dot)
#define log_of LEVEL(log_of)
#define exp_of LEVEL(exp_of)
#define store LEVEL(store)

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DISPATCH
#pragma GCC push_options
#pragma GCC target("avx512f")
#define LEVEL(name) name##_avx512
#define WIDTH 8
#include "_fast.c"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2")
#define LEVEL(name) name##_avx2
#define WIDTH 4
#include "_fast.c"
#pragma GCC pop_options
#endif
#define LEVEL(name) name##_baseline
#define WIDTH 2
#include "_fast.c"

const char fast_digest[] = SOURCE_DIGEST; /* of this file, from the build; the door compares */

/* The best level of this processor: 0 is what all of its kind have, 1 AVX2, 2 AVX-512. */
int fast_level(void)
{
#ifdef DISPATCH
    return __builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx2") ? 1 : 0;
#endif
    return 0;
}

/* Bytes of memory that a call needs, at any level. */
int64_t fast_workspace(int64_t k)
{
    return 64 * (1 + (GROUPS + 1) * k * (k | 1) + (4 * GROUPS + 2) * k + 3 * GROUPS * ROTATIONS);
}

/* The whole of a request; or 1 for one that is refused, of which nothing is done. */
int fast_spectral(const request *r, int level)
{
    if (r->n < 0 || r->k < 1 || r->k > LARGEST_K || r->function < LOG || r->function > IDENTITY
        || r->form < MATRICES || r->form > VALUES || level < 0 || level > fast_level())
        return 1;
#ifdef DISPATCH
    if (level > 0)
        return (level == 2 ? run_avx512 : run_avx2)(r);
#endif
    return run_baseline(r);
}

#else /* ---------------------------------------------------------------- once for each processor */

typedef double lanes __attribute__((vector_size(8 * WIDTH)));
typedef int64_t masks __attribute__((vector_size(8 * WIDTH))); /* all bits of a lane, or none */
typedef uint64_t naturals __attribute__((vector_size(8 * WIDTH)));
typedef struct { lanes c, s; masks on; } rotation; /* of the lanes that are on */
typedef struct {
    lanes *Z, *d, *e;      /* the matrices, then their vectors; diagonal and off-diagonal */
    lanes scale, exponent; /* the power of two that was taken out, */
    lanes shift;           /* and then the multiple of I */
    masks input, hard;     /* the lanes of such a status */
    masks record, *order;  /* which matrices these are, and how their rows are ordered */
} group;

/* Whether any lane is on, in two groups or one. */
INLINE int LEVEL(any)(const int groups, const masks *m)
{
    int64_t found = 0;
    for (int w = 0; w < WIDTH; w++)
        found |= m[0][w] | m[groups - 1][w];
    return found != 0;
}

INLINE lanes root(lanes x)
{
    for (int w = 0; w < WIDTH; w++)
        x[w] = __builtin_sqrt(x[w]);
    return x;
}

/* The inner product of n entries of x and y, that lie these steps apart. */
INLINE lanes dot(int n, const lanes *x, int step_x, const lanes *y, int step_y)
{
    lanes sum = x[0] * y[0];
    for (int i = 1; i < n; i++)
        sum += x[i * step_x] * y[i * step_y];
    return sum;
}

/* log x + e log 2, and what its rounding leaves, for normal x > 0 and integers e. With x = 2ⁱ m,
   √½ ≤ m < √2, f = m − 1 and s = f/(2 + f),
       log m = 2 artanh s = 2 s + s Σ 2 s²ʲ/(2j + 1), j = 1, 2, …
   Since s² < 0.0295, what follows j = 10 is below 2⁻⁶⁰ of it. The leading s has twice the digits:
   s_h, of 26 bits, and s_l, by the remainder of the division. What is rounded is at most 2⁻⁶ of the
   sum, so the pair is right to about 2⁻⁵⁸. */
INLINE lanes log_of(lanes x, lanes e, lanes *rest)
{
    naturals i = ((naturals)x - UINT64_C(0x3fe6a09e667f3bcd) + (UINT64_C(1024) << 52)) >> 52;
    lanes m = (lanes)((naturals)x - ((i - 1024) << 52));
    lanes f = m - 1, t = 2 + f, s = f / t, s_h = upper(s), t_h = upper(t);
    lanes s_l = ((f - s_h * t_h) - s_h * (f - (t_h - 2))) / t;
    lanes square = s_h * s_h + s_l * (s_h + s), sum = filled(2.0 / 21);
    for (int j = 9; j >= 1; j--)
        sum = sum * square + 2.0 / (2 * j + 1);
    e += (lanes)(bits(i) | AS_EXPONENT) - (0x1p52 + 1024);
    lanes high = e * LOG2_HIGH, leading = high + 2 * s_h;
    lanes small = (2 * s_h - (leading - high)) + e * LOG2_LOW + (2 * s_l + s * square * sum);
    *rest = small - ((leading + small) - leading);
    return leading + small;
}

/* exp(x + rest), where rest is small beside x: x = n log 2 + r, |r| < 0.347, and Taylor's series,
   whose terms beyond r¹³/13! are below 2⁻⁵⁷. Right to one unit in the last place; 0 or ∞ where
   float64 holds nothing else. The power of two comes in halves, and only the last may round. */
INLINE lanes exp_of(lanes x, lanes rest)
{
    static const double factorial[] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800,
                                       39916800, 479001600, 6227020800};
    x = larger(smaller(x, filled(710)), filled(-746));
    lanes n = integer(x * 0x1.71547652b82fep0), half = integer(n * 0.5);
    lanes r = (x - n * LOG2_HIGH) + (rest - n * LOG2_LOW), sum = filled(1 / factorial[13]);
    for (int j = 12; j >= 0; j--)
        sum = sum * r + 1 / factorial[j];
    return sum * power_of_two(half) * power_of_two(n - half);
}

/* A = Q T Qᵀ, with diagonal d and off-diagonal e of T. From the last row of the lower triangle
   upwards, I − β u uᵀ reflects row i < k onto its last entry; u stays in the row, for `accumulate`.
   A row that counts as zero has β = 0. */
INLINE void LEVEL(tridiagonalize)(const int k, lanes *A, lanes *d, lanes *e, lanes *beta, lanes *q)
{
    for (int i = k - 1; i > 1; i--) {
        lanes *u = A + i * stride, square = dot(i, u, 1, u, 1);
        masks some = where(square > FAINT);
        lanes last = u[i - 1], length = signed_as(root(square), last);
        e[i - 1] = only(some, -length);
        u[i - 1] = last + length;
        beta[i] = only(some, 1 / (square + last * length));
        for (int j = 0; j < i; j++) { /* q = A u, of the lower triangle */
            lanes *row = A + j * stride, sum = row[j] * u[j];
            for (int m = 0; m < j; m++) {
                sum += row[m] * u[m];
                q[m] += row[m] * u[j];
            }
            q[j] = sum;
        }
        lanes overlap = dot(i, u, 1, q, 1) * beta[i] * 0.5;
        for (int j = 0; j < i; j++)
            q[j] = (q[j] - overlap * u[j]) * beta[i];
        for (int j = 0; j < i; j++) /* (I − β u uᵀ) A (I − β u uᵀ) = A − u qᵀ − q uᵀ */
            for (int m = 0; m <= j; m++)
                A[j * stride + m] -= u[j] * q[m] + q[j] * u[m];
    }
    e[0] = A[k > 1 ? stride : 0];
    e[k - 1] = filled(0);
    for (int i = 0; i < k; i++)
        d[i] = A[i * stride + i];
}

/* Q, in the place of the vectors u. */
INLINE void LEVEL(accumulate)(const int k, lanes *A, const lanes *beta)
{
    for (int i = 0; i < k; i++) {
        const lanes *u = A + i * stride;
        for (int j = 0; i > 1 && j < i; j++) {
            lanes sum = dot(i, u, 1, A + j, stride) * beta[i];
            for (int m = 0; m < i; m++)
                A[m * stride + j] -= sum * u[m];
        }
        for (int j = 0; j < i; j++)
            A[i * stride + j] = A[j * stride + i] = filled(0);
        A[i * stride + i] = filled(1);
    }
}

/* In each lane the first block of T that is not diagonal, from l to m: which planes (i, i + 1) it
   has, and d_m − σ, where σ is Wilkinson's shift, the eigenvalue at d_l of its first 2 × 2 part.
   Off-diagonals that are rounding become 0. Squares of others do not underflow. */
INLINE void LEVEL(find_blocks)(const int groups, const int k, int low, group *G,
                               masks (*on)[GROUPS], lanes *start)
{
    masks begun[GROUPS] = {{0}}, past[GROUPS] = {{0}};
    lanes d_l[GROUPS] = {{0}}, d_next[GROUPS] = {{0}}, d_m[GROUPS] = {{0}}, e_l[GROUPS] = {{0}};
    for (int i = low; i < k - 1; i++)
        for (int g = 0; g < groups; g++) {
            lanes *d = G[g].d + i, *e = G[g].e + i;
            masks big = where(absolute(*e) > 0x1p-53 * (absolute(d[0]) + absolute(d[1])) + 1e-120);
            masks first = big & ~begun[g];
            past[g] |= begun[g] & ~big;
            begun[g] |= big;
            on[i][g] = big & ~past[g];
            *e = only(big, *e);
            e_l[g] = pick(first, *e, e_l[g]);
            d_l[g] = pick(first, d[0], d_l[g]);
            d_next[g] = pick(first, d[1], d_next[g]);
            d_m[g] = pick(on[i][g], d[1], d_m[g]);
        }
    for (int g = 0; g < groups; g++) {
        lanes half = (d_next[g] - d_l[g]) * 0.5, square = e_l[g] * e_l[g];
        lanes radius = signed_as(root(half * half + square), half);
        start[g] = d_m[g] - d_l[g] + square / (half + radius);
    }
}

/* A sweep of implicit QL through these blocks, from plane `top` − 1 down to `low`. Its length is
   that of the chain of √ and ÷ from one rotation to the next, so groups take turns. */
INLINE void LEVEL(sweep)(const int groups, int low, int top, group *G, masks (*on)[GROUPS],
                         lanes *start, rotation *turn)
{
    lanes bulge[GROUPS], c[GROUPS], s[GROUPS], p[GROUPS];
    for (int g = 0; g < groups; g++)
        bulge[g] = start[g], c[g] = s[g] = filled(1), p[g] = filled(0);
    for (int i = top - 1; i >= low; i--)
        for (int g = 0; g < groups; g++, turn++) {
            lanes *d = G[g].d + i, *e = G[g].e + i;
            masks here = on[i][g], inside = here & on[i + 1][g];
            masks last = i > low ? here & ~on[i - 1][g] : here;
            lanes f = s[g] * *e, b = c[g] * *e, square = f * f + bulge[g] * bulge[g];
            lanes r = root(square), inverse = r * (1 / square);
            masks some = where(square > FAINT); /* else there is nothing to rotate away */
            lanes sine = only(some, f * inverse);
            lanes cosine = pick(some, bulge[g] * inverse, filled(1));
            lanes rest = d[1] - p[g], slope = (d[0] - rest) * sine + 2 * cosine * b;
            e[1] = pick(inside, r, e[1]);
            d[1] = pick(here, rest + sine * slope, d[1]);
            p[g] = pick(here, sine * slope, p[g]);
            bulge[g] = pick(here, cosine * slope - b, bulge[g]);
            s[g] = pick(here, sine, s[g]);
            c[g] = pick(here, cosine, c[g]);
            d[0] = pick(last, d[0] - p[g], d[0]);
            e[0] = pick(last, bulge[g], e[0]);
            *turn = (rotation){cosine, sine, here};
        }
}

/* The rotations of some sweeps, applied to a few rows, which stay in registers and the cache. */
INLINE void LEVEL(rotate)(const int groups, const int rows, const int k, lanes *Z, int sweeps,
                          const int (*range)[2], const rotation *turn)
{
    for (int n = 0; n < sweeps; n++) {
        const int low = range[n][0], top = range[n][1];
        lanes carried[5];
        for (int j = 0; j < rows; j++)
            carried[j] = Z[j * stride + top];
        for (int i = top - 1; i >= low; i--, turn += groups) {
            const lanes c = turn->c, s = turn->s;
            const masks on = turn->on;
            for (int j = 0; j < rows; j++) {
                lanes *z = Z + j * stride + i, x = z[0], y = carried[j];
                carried[j] = pick(on, c * x - s * y, x);
                z[1] = pick(on, s * x + c * y, y);
            }
        }
        for (int j = 0; j < rows; j++)
            Z[j * stride + low] = carried[j];
    }
}

/* All rows, four at once, or five at last: a row alone would cost as much as four. */
INLINE void LEVEL(rotate_all)(const int groups, const int k, lanes *Z, int sweeps,
                              const int (*range)[2], const rotation *turn)
{
    for (int left = k; left > 0; Z += 4 * stride, left -= 4)
        switch (left) {
        case 1: LEVEL(rotate)(groups, 1, k, Z, sweeps, range, turn); break;
        case 2: LEVEL(rotate)(groups, 2, k, Z, sweeps, range, turn); break;
        case 3: LEVEL(rotate)(groups, 3, k, Z, sweeps, range, turn); break;
        case 5: LEVEL(rotate)(groups, 5, k, Z, sweeps, range, turn); return;
        default: LEVEL(rotate)(groups, 4, k, Z, sweeps, range, turn);
        }
}

/* Eigenvalues of T in the place of d, and Z times its vectors in the place of Z, if they are
   wanted. Rotations are collected, and applied when there are enough or no more. About 1.7 sweeps
   an eigenvalue are usual, and 3 k were enough for all that was tried; what takes more than
   SWEEPS k is hard. */
INLINE void LEVEL(diagonalize)(const int groups, const int k, group *G, int vectors,
                               masks (*on)[GROUPS], rotation *turns)
{
    int low = 0, sweeps = 0, count = 0, range[ROTATIONS][2];
    lanes start[GROUPS];
    memset(on[k - 1], 0, sizeof *on);
    for (int total = 0; low < k - 1; total++) {
        LEVEL(find_blocks)(groups, k, low, G, on, start);
        while (low < k - 1 && !LEVEL(any)(groups, on[low]))
            low++;
        for (; total == SWEEPS * k && low < k - 1; low++)
            for (int g = 0; g < groups; g++)
                G[g].hard |= on[low][g];
        int top = k - 1;
        while (top > low && !LEVEL(any)(groups, on[top - 1]))
            top--;
        if (low == k - 1 || count + top - low > ROTATIONS) {
            for (int g = 0; vectors && g < groups; g++)
                LEVEL(rotate_all)(groups, k, G[g].Z, sweeps, range, turns + g);
            sweeps = count = 0;
        }
        LEVEL(sweep)(groups, low, top, G, on, start, turns + groups * count);
        range[sweeps][0] = low, range[sweeps++][1] = top;
        count += top - low;
    }
}

/* The numbers at these places of X, one for each lane. */
INLINE lanes LEVEL(load)(const char *X, masks place)
{
    double entry[WIDTH]; /* on AVX-512 a sixth faster than lanes that are filled one by one */
    lanes y;
    for (int w = 0; w < WIDTH; w++)
        memcpy(entry + w, X + 8 * place[w], 8);
    memcpy(&y, entry, sizeof y);
    return y;
}

/* Into the results of the records, `size` numbers each, of which the first has its entry at x. */
INLINE void store(const group *g, lanes y, double *x, int64_t size)
{
    for (int w = 0; w < WIDTH; w++)
        x[size * g->record[w]] = y[w];
}

/* The order of rows in which the diagonal increases, if nothing comes before. Large entries then
   stand at the end where EISPACK wants them, and matrices whose rows differ in scale keep digits of
   their small eigenvalues: at a condition of 10¹², eight or more where LAPACK has four. */
INLINE void LEVEL(sort)(const request *r, const int k, group *g, masks *diagonal)
{
    for (int i = 0; i < k; i++) {
        g->order[i] = (masks){0} + i;
        lanes x = LEVEL(load)(r->X, k * k * g->record + i * (k + 1));
        diagonal[i] = bits(absolute(x)); /* integers of the same order, NaN last */
    }
    for (int i = 0; i < k && k > 2 && !r->before; i++) {
        masks rank = {0};
        for (int j = 0; j < k; j++)
            rank -= j < i ? diagonal[j] <= diagonal[i] : diagonal[j] < diagonal[i];
        for (int w = 0; w < WIDTH; w++)
            g->order[rank[w]][w] = i;
    }
}

/* C B, or its lower triangle, for lower triangular C; `row` is from one row of B to the next. */
INLINE void LEVEL(multiply)(const int k, const group *g, const char *C, int64_t step, int triangle,
                            const lanes *B, const int row, const int column, lanes *product)
{
    for (int i = 0; i < k; i++, product += stride)
        for (int m = 0; m <= i; m++) {
            lanes c = LEVEL(load)(C, step * g->record + i * k + m);
            for (int j = 0; j < (triangle ? i + 1 : k); j++) {
                lanes term = c * B[m * row + j * column];
                product[j] = m ? product[j] + term : term;
            }
        }
}

/* From records to T and Q. A X Aᵀ is divided by a power of two, so that its largest entry is in
   [1, 2), and σ I is subtracted, with σ the smallest entry of the diagonal: what is rounded then is
   no longer the matrix, but what it differs by from a multiple of I. Bad records become 0. */
INLINE void LEVEL(reduce)(const request *r, const int k, group *g, lanes *X, lanes *beta)
{
    lanes *Z = g->Z, largest = filled(0);
    LEVEL(sort)(r, k, g, (masks *)X);
    for (int i = 0; i < k; i++) {
        masks row = k * (k * g->record + g->order[i]);
        for (int j = 0; j < k; j++)
            X[i * stride + j] = LEVEL(load)(r->X, row + g->order[j]);
    }
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) /* nor are ∞ − ∞ and NaN */
            g->input |= ~where(X[i * stride + j] - X[j * stride + i] == 0);
    if (r->before) { /* A (A X)ᵀ */
        LEVEL(multiply)(k, g, r->before, r->before_step, 0, X, stride, 1, Z);
        LEVEL(multiply)(k, g, r->before, r->before_step, 1, Z, 1, stride, X);
    }
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) {
            lanes size = absolute(X[i * stride + j]);
            g->hard |= ~where(size <= HUGEST);
            largest = larger(size, largest);
        }
    largest = smaller(larger(largest, filled(0x1p-1022)), filled(0x1p1022));
    naturals exponent = (naturals)largest >> 52; /* 1 to 2045, so both powers are normal */
    g->scale = (lanes)(exponent << 52);
    g->exponent = (lanes)(exponent | AS_EXPONENT) - (0x1p52 + 1023);
    lanes inverse = (lanes)((2046 - exponent) << 52);
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) /* + 0: of two that are equal, −0 and 0, all is the same */
            Z[i * stride + j] = only(~(g->input | g->hard), X[i * stride + j]) * inverse + 0;
    g->shift = Z[0];
    for (int i = 1; i < k; i++) {
        lanes x = Z[i * stride + i];
        g->shift = pick(where(absolute(x) < absolute(g->shift)), x, g->shift);
    }
    g->shift = (g->shift + 3) - 3; /* a multiple of 2⁻⁵², so that what is left is exact */
    for (int i = 0; i < k; i++)
        Z[i * stride + i] -= g->shift;
    LEVEL(tridiagonalize)(k, Z, g->d, g->e, beta, X);
    if (r->form != VALUES)
        LEVEL(accumulate)(k, Z, beta);
}

/* The smallest and the largest of k numbers. */
INLINE void LEVEL(extremes)(const int k, const lanes *d, lanes *low, lanes *high)
{
    *low = *high = d[0];
    for (int i = 1; i < k; i++) {
        *low = smaller(d[i], *low);
        *high = larger(d[i], *high);
    }
}

/* f of the eigenvalues in the place of d, NaN in a lane that is not fine. */
INLINE void LEVEL(evaluate)(const request *r, const int k, group *g)
{
    const lanes p = filled(r->p), p_h = upper(p), p_l = p - p_h;
    lanes *d = g->d, low, high, rest;
    LEVEL(extremes)(k, d, &low, &high);
    low += g->shift, high += g->shift;
    store(g, low * g->scale, r->ends, 2);
    store(g, high * g->scale, r->ends + 1, 2);
    g->hard |= ~where(larger(absolute(low), absolute(high)) * g->scale <= HUGEST);
    if (r->function == LOG || r->function == POWER) /* of normal numbers above 0 */
        g->hard |= ~where(low > larger(r->least * high, filled(0x1p-1000)));
    for (int i = 0; i < k; i++) { /* of x and what its rounding leaves */
        lanes x = d[i] + g->shift, y = x - g->shift, left = (g->shift - (x - y)) + (d[i] - y);
        if (r->function == LOG || r->function == POWER) {
            d[i] = log_of(x, g->exponent, &rest);
            rest += left / x;
        }
        if (r->function == LOG)
            d[i] += rest;
        else if (r->function == POWER) { /* p times the logarithm, to twice the digits */
            lanes t = d[i], t_h = upper(t), t_l = t - t_h;
            rest = p * rest + (((p_h * t_h - p * t) + p_h * t_l + p_l * t_h) + p_l * t_l);
            d[i] = exp_of(p * t, rest);
        } else if (r->function == EXP)
            d[i] = exp_of(p * (x * g->scale), p * (left * g->scale));
        else
            d[i] = x * g->scale;
    }
    if (r->function == EXP || r->function == POWER) { /* with room for the caller's own checks */
        LEVEL(extremes)(k, d, &low, &high);
        lanes most = filled(0x1p1020), least = larger(r->least * high, 1 / most);
        g->hard |= ~where(low > least) | ~where(high < most);
    }
    for (int i = 0; i < k; i++) {
        d[i] = pick(g->input | g->hard, filled(__builtin_nan("")), d[i]);
        if (r->form == VALUES)
            store(g, d[i], r->F + i, k);
    }
}

/* Z f(Λ) Zᵀ, or B Z f(Λ) Zᵀ Bᵀ, into the results. A rotation whose c² + s² is not quite 1 stretches
   two vectors alike, and what thousands of them add up to is the greater part of all rounding; so
   each vector z counts as z/‖z‖. */
INLINE void LEVEL(compose)(const request *r, const int k, group *g, lanes *other, lanes *q)
{
    for (int m = 0; m < k; m++)
        g->d[m] /= dot(k, g->Z + m, stride, g->Z + m, stride);
    for (int i = 0; i < k; i++)
        for (int m = 0; m < k; m++)
            for (int w = 0; w < WIDTH; w++)
                other[g->order[i][w] * stride + m][w] = g->Z[i * stride + m][w];
    if (r->after)
        LEVEL(multiply)(k, g, r->after, r->after_step, 0, other, stride, 1, g->Z);
    const lanes *Z = r->after ? g->Z : other;
    for (int i = 0; i < k; i++) {
        for (int m = 0; m < k; m++)
            q[m] = Z[i * stride + m] * g->d[m];
        for (int j = 0; j <= i; j++) {
            lanes entry = dot(k, q, 1, Z + j * stride, 1);
            if (r->form == MATRICES) {
                store(g, entry, r->F + i * k + j, k * k);
                store(g, entry, r->F + j * k + i, k * k);
            } else {
                int place = i == j ? i : k + j * (2 * k - j - 3) / 2 + i - 1;
                entry = i == j ? entry : entry * ROOT_2;
                store(g, entry, r->F + place, k * (k + 1) / 2);
            }
            g->hard |= ~where(absolute(entry) <= HUGEST);
        }
    }
}

/* GROUPS or fewer groups of matrices, from record `first` on. Lanes beyond the last record compute
   it once more, and store the same bits in the same place. */
INLINE void LEVEL(compute)(const request *r, const int groups, const int k, int64_t first)
{
    lanes *other = (lanes *)(r->work + (-(uintptr_t)r->work & 63)), *beta = other + k * stride;
    lanes *q = beta + k, *own = q + k;
    group G[GROUPS];
    for (int g = 0; g < groups; g++, own += k * stride + 3 * k) {
        lanes *d = own + k * stride;
        G[g] = (group){.Z = own, .d = d, .e = d + k, .order = (masks *)(d + 2 * k)};
        for (int w = 0; w < WIDTH; w++, first++)
            G[g].record[w] = first < r->n ? first : r->n - 1;
        LEVEL(reduce)(r, k, G + g, other, beta);
    }
    masks (*on)[GROUPS] = (masks (*)[GROUPS])own;
    LEVEL(diagonalize)(groups, k, G, r->form != VALUES, on, (rotation *)(on + k));
    for (int g = 0; g < groups; g++) {
        LEVEL(evaluate)(r, k, G + g);
        if (r->form != VALUES)
            LEVEL(compose)(r, k, G + g, other, q);
        for (int w = 0; w < WIDTH; w++)
            r->status[G[g].record[w]] = G[g].input[w] ? INPUT : G[g].hard[w] ? HARD : FINE;
    }
}

INLINE int LEVEL(all_of)(const request *r, const int k)
{
    int64_t first = 0;
    for (; first + WIDTH < r->n; first += GROUPS * WIDTH)
        LEVEL(compute)(r, GROUPS, k, first);
    if (first < r->n)
        LEVEL(compute)(r, 1, k, first);
    return 0;
}

/* A k that the compiler knows is a quarter faster where there is little to do. */
static int LEVEL(run)(const request *r)
{
    return r->k == 2 ? LEVEL(all_of)(r, 2)
         : r->k == 3 ? LEVEL(all_of)(r, 3) : LEVEL(all_of)(r, r->k);
}

#undef LEVEL
#undef WIDTH
#endif
