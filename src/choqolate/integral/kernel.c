/* The pairwise integral, its softmax, and their gradients, without the (batch x pairs) matrix.
 *
 * The weights of an integral over M inputs fill a matrix w (M x M): a on the diagonal, b (min) above, c (max) below it.
 * Because min(x, y) + max(x, y) = x + y, one feature per pair is enough,
 *
 *     C(u) = sum_j linear_j u_j + sum_{j<l} (b_jl - c_jl) min(u_j, u_l),     linear_j = a_j + sum_l c_jl,
 *
 * and min(u_j, u_j) = u_j makes linear_j the "pair" (j, j). A minimum is computed in a register for a vector of rows
 * and multiplied at once with the weights of a tile of up to NODES integrals. It never goes to memory.
 *
 * This file is compiled once per precision and instruction set: DOUBLE selects the precision, SUFFIX ends the names of
 * the functions. There are no allocations and no global state: the caller provides all memory. Every sum is taken in
 * an order that does not depend on the number of threads.
 *
 * Arrays are contiguous, except the inputs u and the gradients g, which have a step for each of their three axes.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __AVX__
#include <immintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

#ifdef DOUBLE
typedef double real;
typedef int64_t bits;
#define EXP_DEGREE 13
#define MANTISSA 52
#define EXP_BIAS 1023
#define EXP_LOWEST -708.0
#define ROUNDING 0x1.8p52
#define LN2_HIGH 0x1.62e42fefa3800p-1
#define LN2_LOW 0x1.ef35793c76730p-45
#else
typedef float real;
typedef int32_t bits;
#define EXP_DEGREE 7
#define MANTISSA 23
#define EXP_BIAS 127
#define EXP_LOWEST -87.0f
#define ROUNDING 0x1.8p23f
#define LN2_HIGH 0x1.63p-1f
#define LN2_LOW -0x1.bd0106p-13f
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#ifdef DOUBLE
#define LANES (VECTOR_BYTES / 8)
#else
#define LANES (VECTOR_BYTES / 4)
#endif

#define NODES 8             /* integrals per tile: as many running sums as it takes to keep the multipliers busy */
#define CHUNK 8             /* vectors of rows that use a panel of weights before the next is fetched */
#define PANEL 4096          /* weights of a panel: half of the first-level cache */
#define GROUP (1 << 20)     /* weights prepared at a time */
#define GRADIENT_ROWS 512   /* rows of the batch that a gradient sums at a time */
#define BLOCK 16            /* columns at a time where a matrix is read both ways */
#define PARALLEL_FROM 300e3 /* multiplications that are worth waking other threads for */

#define JOIN(a, b) a##_##b
#define NAMED(name, suffix) JOIN(name, suffix)
#define EXPORT(name) NAMED(name, SUFFIX)
#define INLINE static inline __attribute__((always_inline))

typedef ptrdiff_t index;
typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef bits ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef real loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

typedef struct {
    const real *data;
    index stack, row, column; /* steps */
} strided;

typedef struct {
    index stacks, rows, inputs, nodes;
} shape;

/* What the weights come from: themselves, or parameters of which they are the softmax. */
typedef struct {
    const real *data;
    real *scale; /* (nodes, 2): the maximum of a node's parameters, and one over the sum of exp(theta - maximum) */
    int softmax;
} source;

/* ---------------------------------------------------------------- small things */

INLINE index smaller(index a, index b) { return a < b ? a : b; }
INLINE index larger(index a, index b) { return a > b ? a : b; }
INLINE index parts_of(index n, index size) { return (n + size - 1) / size; }
INLINE index round_up(index n) { return parts_of(n, 16) * 16; } /* whole cache lines in both precisions */

INLINE int this_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* One instruction where the compiler has a name for it. */
#if defined(__clang__)
#define minimum(a, b) __builtin_elementwise_min(a, b)
#define maximum(a, b) __builtin_elementwise_max(a, b)
#elif defined(__AVX512F__) && defined(DOUBLE)
#define minimum(a, b) ((vec)_mm512_min_pd(a, b))
#define maximum(a, b) ((vec)_mm512_max_pd(a, b))
#elif defined(__AVX512F__)
#define minimum(a, b) ((vec)_mm512_min_ps(a, b))
#define maximum(a, b) ((vec)_mm512_max_ps(a, b))
#elif defined(__AVX__) && defined(DOUBLE)
#define minimum(a, b) ((vec)_mm256_min_pd(a, b))
#define maximum(a, b) ((vec)_mm256_max_pd(a, b))
#elif defined(__AVX__)
#define minimum(a, b) ((vec)_mm256_min_ps(a, b))
#define maximum(a, b) ((vec)_mm256_max_ps(a, b))
#else
INLINE vec choose(ivec where, vec a, vec b) { return (vec)(((ivec)a & where) | ((ivec)b & ~where)); }
INLINE vec minimum(vec a, vec b) { return choose(a < b, a, b); }
INLINE vec maximum(vec a, vec b) { return choose(a > b, a, b); }
#endif

INLINE real sum_lanes(vec x) {
    real total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

/* exp(x) for x <= 0. With n = round(x / ln 2) and r = x - n ln 2: 2^n times the Taylor polynomial at r. */
INLINE vec exponential(vec x) {
    static const real inverse_factorial[] = {1.0,          1.0,          1.0 / 2,       1.0 / 6,        1.0 / 24,
                                             1.0 / 120,    1.0 / 720,    1.0 / 5040,    1.0 / 40320,    1.0 / 362880,
                                             1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    ivec vanishes = x < (vec){0} + (real)EXP_LOWEST; /* false for NaN, which passes through */
    vec shifted = maximum(x, (vec){0} + (real)EXP_LOWEST) * (real)1.4426950408889634 + (real)ROUNDING;
    vec n = shifted - (real)ROUNDING;
    vec r = (x - n * (real)LN2_HIGH) - n * (real)LN2_LOW;
    vec value = (vec){0} + inverse_factorial[EXP_DEGREE];
    for (int k = EXP_DEGREE - 1; k >= 0; k--) value = value * r + inverse_factorial[k];
    ivec exponent = (ivec)shifted - (ivec)((vec){0} + (real)ROUNDING) + (bits)EXP_BIAS;
    value *= (vec)(exponent << MANTISSA);
    return (vec)((ivec)value & ~vanishes);
}

#if LANES == 2
#define EVEN 0, 2
#define ODD 1, 3
#elif LANES == 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#elif LANES == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#else
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#endif
#ifdef __clang__
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif

INLINE vec add_neighbours(vec a, vec b) { return PICK(a, b, EVEN) + PICK(a, b, ODD); }

/* The sum of the lanes of each of NODES vectors. */
INLINE void sum_each(vec *x, real *out) {
    int left = NODES;
    for (int width = LANES; width > 1; width /= 2) {
        if (left == 1) x[0] = add_neighbours(x[0], x[0]);
        for (int i = 0; i < left / 2; i++) x[i] = add_neighbours(x[2 * i], x[2 * i + 1]);
        left = left > 1 ? left / 2 : 1;
    }
    for (int n = 0; n < NODES; n++) out[n] = x[n / LANES][n % LANES];
}

/* ---------------------------------------------------------------- weights */

/* Where the pairs (j, j), (j, j + 1), ... (j, M - 1) begin in a list of all pairs. */
INLINE index row_of_pairs(index j, index inputs) { return j * inputs - j * (j - 1) / 2; }
INLINE index pairs_of(index inputs) { return inputs * (inputs + 1) / 2; }

/* exp(theta - largest), times a factor, and the sum of it. */
static double exponentials(const real *theta, real largest, real factor, index count, real *out) {
    double total = 0;
    for (index start = 0; start < count; start += 64 * LANES) {
        index stop = smaller(start + 64 * LANES, count), i = start;
        vec sum = {0};
        for (; i + LANES <= stop; i += LANES) {
            vec value = exponential(*(const loose *)(theta + i) - largest) * factor;
            *(loose *)(out + i) = value;
            sum += value;
        }
        if (i < stop) {
            vec last = (vec){0} + largest;
            for (index k = i; k < stop; k++) last[k - i] = theta[k];
            last = exponential(last - largest) * factor;
            for (index k = i; k < stop; k++) out[k] = last[k - i], total += last[k - i];
        }
        total += sum_lanes(sum);
    }
    return total;
}

static real largest_of(const real *x, index count) {
    vec best = (vec){0} + x[0];
    index i = 0;
    for (; i + LANES <= count; i += LANES) best = maximum(best, *(const loose *)(x + i));
    real found = best[0];
    for (int k = 1; k < LANES; k++) found = best[k] > found ? best[k] : found;
    for (; i < count; i++) found = x[i] > found ? x[i] : found;
    return found;
}

/* The weight matrix of a node, in space if it has to be computed. */
static const real *node_weights(const source *from, index node, index inputs, real *space) {
    const real *theta = from->data + node * inputs * inputs;
    if (!from->softmax) return theta;
    exponentials(theta, from->scale[2 * node], from->scale[2 * node + 1], inputs * inputs, space);
    return space;
}

/* The softmax of a node's parameters; remembers its scale and returns the mass of all pairs. */
static real normalise(const source *from, index node, index inputs, real *space) {
    const real *theta = from->data + node * inputs * inputs;
    real largest = largest_of(theta, inputs * inputs);
    double singles = 0, total = exponentials(theta, largest, 1, inputs * inputs, space);
    real factor = (real)(1 / total);
    for (index j = 0; j < inputs; j++) singles += space[j * (inputs + 1)];
    from->scale[2 * node] = largest;
    from->scale[2 * node + 1] = factor;
    return (real)((total - singles) / total);
}

/* Coefficients of all pairs of a node, times a factor: b - c, on the diagonal the linear coefficient; every step-th
 * place of out. */
static void moebius(const real *w, real factor, index inputs, real *linear, real *out, index step) {
    for (index j = 0; j < inputs; j++) linear[j] = w[j * (inputs + 1)];
    for (index first = 0; first < inputs; first += BLOCK)
        for (index l = first + 1; l < inputs; l++) {
            real total = 0;
            for (index j = first; j < smaller(first + BLOCK, l); j++) {
                real c = w[l * inputs + j];
                out[(row_of_pairs(j, inputs) + l - j) * step] = factor * (w[j * inputs + l] - c);
                linear[j] += c;
                total += c;
            }
            linear[l] += total;
        }
    for (index j = 0; j < inputs; j++) out[row_of_pairs(j, inputs) * step] = factor * linear[j];
}

/* ---------------------------------------------------------------- rows */

/* LANES rows of x side by side, out[column][lane]; rows past the last are zero. */
static void transpose_rows(const strided *x, index stack, index first, index rows, index columns, real *out) {
    for (index lane = 0; lane < LANES; lane++) {
        const real *row = x->data + stack * x->stack + (first + lane) * x->row;
        if (first + lane < rows)
            for (index m = 0; m < columns; m++) out[m * LANES + lane] = row[m * x->column];
        else
            for (index m = 0; m < columns; m++) out[m * LANES + lane] = 0;
    }
}

/* Add the pairs of rows first to last to the sums of the tile's nodes, for one vector of rows. */
INLINE void add_pairs(vec *sums, const real *weights, const vec *u, index first, index last, index inputs, int width) {
    vec sum[NODES] = {{0}};
    for (index j = first; j < last; j++) {
        vec own = u[j];
        for (index l = j; l < inputs; l++, weights += width) {
            vec low = minimum(own, u[l]);
            for (int n = 0; n < width; n++) sum[n] += weights[n] * low;
        }
    }
    for (int n = 0; n < width; n++) sums[n] += sum[n];
}

/* sums[n][lane] = sum over the rows of g[row][n][lane] * min(u_j[row][lane], u_l[row][lane]) */
INLINE void sum_minima(vec *sums, const vec *own, const vec *other, const vec *g, index vectors, int width) {
    vec sum[NODES] = {{0}};
    for (index v = 0; v < vectors; v++, g += width) {
        vec low = minimum(own[v], other[v]);
        for (int n = 0; n < width; n++) sum[n] += g[n] * low;
    }
    for (int n = 0; n < NODES; n++) sums[n] = sum[n];
}

/* Share the gradient of the features of pairs (j, l >= j) among their smaller members; ties count half for each. */
INLINE void share_gradient(vec *grad, const real *weights, const vec *u, const vec *g, index j, index inputs, int width) {
    vec own = u[j], mine = {0}, gs[NODES];
    for (int n = 0; n < width; n++) gs[n] = g[n], mine += weights[n] * gs[n];
    weights += width;
    for (index l = j + 1; l < inputs; l++, weights += width) {
        vec even = {0}, odd = {0}, other = u[l];
        for (int n = 0; n + 1 < width; n += 2) even += weights[n] * gs[n], odd += weights[n + 1] * gs[n + 1];
        if (width % 2) even += weights[width - 1] * gs[width - 1];
        vec half = (even + odd) * (real)0.5;
        vec signed_half = (vec)((ivec)half & (other > own)) - (vec)((ivec)half & (other < own));
        mine += half + signed_half;
        grad[l] += half - signed_half;
    }
    grad[j] += mine;
}

/* A loop over nodes is unrolled only if their number is known. */
#define BY_WIDTH(width, call)              \
    switch (width) {                       \
    case 1: call(1); break;                \
    case 2: call(2); break;                \
    case 3: call(3); break;                \
    case 4: call(4); break;                \
    case 5: call(5); break;                \
    case 6: call(6); break;                \
    case 7: call(7); break;                \
    default: call(8); break;               \
    }

/* ---------------------------------------------------------------- the plan: who works on what, in which memory */

typedef struct {
    shape size;
    index tiles, group;  /* tiles of nodes, and how many are prepared at a time */
    index tile_space;    /* numbers of the prepared weights, or of the slopes, of a tile */
    index shared, own;   /* numbers that the threads of a team share, and that each has for itself */
    int teams, threads;  /* stacks side by side, and the threads that each gets */
} plan;

static plan make_plan(index stacks, index rows, index inputs, index nodes, int threads) {
    plan p = {.size = {stacks, rows, inputs, nodes}};
    double work = 0.5 * (double)rows * (double)inputs * (double)inputs * (double)nodes;
    if (work * (double)stacks < PARALLEL_FROM) threads = 1;
    p.teams = stacks >= threads ? threads : 1;
    p.threads = p.teams > 1 ? 1 : threads;
    p.tiles = parts_of(nodes, NODES);
    p.tile_space = round_up(pairs_of(inputs) * NODES);
    p.group = smaller(larger(GROUP / larger(p.tile_space, 1), 1), larger(p.tiles, 1));
    index batch = round_up(GRADIENT_ROWS) + 16;
    p.shared = p.group * (p.tile_space + batch * NODES) + round_up(inputs * batch);
    index chunk = CHUNK * LANES * (2 * inputs + NODES);
    p.own = round_up(larger(chunk, inputs * inputs + inputs));
    return p;
}

INLINE index width_of(const plan *p, index tile) { return smaller(NODES, p->size.nodes - tile * NODES); }
INLINE index nodes_before(const plan *p, index tile) { return smaller(tile * NODES, p->size.nodes); }

/* Numbers of workspace that any of the functions below needs. */
index EXPORT(choquet_workspace)(index stacks, index rows, index inputs, index nodes, int threads) {
    plan p = make_plan(stacks, rows, inputs, nodes, threads);
    return p.teams * (p.shared + p.threads * p.own);
}

/* Prepare the coefficients of a group's tiles; the threads of a team share the nodes. */
static void prepare_group(const plan *p, const source *from, index first, index last, real *mass, real *shared, real *own) {
    index inputs = p->size.inputs;
#pragma omp for schedule(dynamic)
    for (index node = nodes_before(p, first); node < nodes_before(p, last); node++) {
        index tile = node / NODES;
        real *linear = own + inputs * inputs, *out = shared + (tile - first) * p->tile_space + node % NODES;
        const real *w = from->data + node * inputs * inputs;
        real factor = 1;
        if (from->softmax && mass) { /* the first time */
            mass[node] = normalise(from, node, inputs, own);
            w = own, factor = from->scale[2 * node + 1];
        } else if (from->softmax)
            w = node_weights(from, node, inputs, own);
        moebius(w, factor, inputs, linear, out, width_of(p, tile));
    }
}

/* ---------------------------------------------------------------- values */

static void integrate_chunk(const plan *p, const strided *u, index stack, index first_tile, index last_tile, index chunk,
                            const real *shared, real *own, real *values) {
    index inputs = p->size.inputs, rows = p->size.rows, start = chunk * CHUNK * LANES;
    index vectors = parts_of(smaller(rows - start, CHUNK * LANES), LANES);
    for (index v = 0; v < vectors; v++)
        transpose_rows(u, stack, start + v * LANES, rows, inputs, own + v * inputs * LANES);
    for (index tile = first_tile; tile < last_tile; tile++) {
        const real *weights = shared + (tile - first_tile) * p->tile_space;
        index width = width_of(p, tile);
        vec sums[CHUNK][NODES] = {{{0}}};
        for (index j = 0, last; j < inputs; j = last) {
            for (last = j + 1; last < inputs; last++)
                if ((row_of_pairs(last + 1, inputs) - row_of_pairs(j, inputs)) * width > PANEL) break;
            for (index v = 0; v < vectors; v++) {
                const real *panel = weights + row_of_pairs(j, inputs) * width;
                const vec *rows_of_u = (const vec *)(own + v * inputs * LANES);
#define CALL(w) add_pairs(sums[v], panel, rows_of_u, j, last, inputs, w)
                BY_WIDTH(width, CALL)
#undef CALL
            }
        }
        for (index v = 0; v < vectors; v++)
            for (index lane = 0; lane < smaller(LANES, rows - start - v * LANES); lane++)
                for (index n = 0; n < width; n++)
                    values[(start + v * LANES + lane) * p->size.nodes + tile * NODES + n] = sums[v][n][lane];
    }
}

static void integrate_stack(const plan *p, const strided *u, const source *from, index stack, real *mass, real *values,
                            real *work) {
#pragma omp parallel num_threads(p->threads) if (p->threads > 1)
    {
        real *own = work + p->shared + this_thread() * p->own;
        for (index first = 0; first < p->tiles; first += p->group) {
            index last = smaller(first + p->group, p->tiles);
            prepare_group(p, from, first, last, mass, work, own);
#pragma omp for schedule(dynamic)
            for (index chunk = 0; chunk < parts_of(p->size.rows, CHUNK * LANES); chunk++)
                integrate_chunk(p, u, stack, first, last, chunk, work, own, values);
        }
    }
}

/* values (S, B, N) of the integrals; with softmax, also the mass (S, N) of their pairs and their scale (S, N, 2). */
void EXPORT(choquet_values)(const real *u, index u_stack, index u_row, index u_column, const real *theta, int softmax,
                            real *values, real *mass, real *scale, index stacks, index rows, index inputs, index nodes,
                            real *work, int threads) {
    plan p = make_plan(stacks, rows, inputs, nodes, threads);
    strided rows_of_u = {u, u_stack, u_row, u_column};
#pragma omp parallel for num_threads(p.teams) if (p.teams > 1) schedule(dynamic)
    for (index s = 0; s < stacks; s++) {
        source from = {theta + s * nodes * inputs * inputs, softmax ? scale + s * nodes * 2 : NULL, softmax};
        integrate_stack(&p, &rows_of_u, &from, s, softmax ? mass + s * nodes : NULL, values + s * rows * nodes,
                        work + this_thread() * (p.shared + p.own));
    }
}

/* ---------------------------------------------------------------- gradient of the inputs */

static void share_chunk(const plan *p, const strided *u, const strided *g, index stack, index first_tile,
                        index last_tile, index chunk, const real *shared, real *own, real *grad) {
    index inputs = p->size.inputs, rows = p->size.rows, start = chunk * CHUNK * LANES;
    index vectors = parts_of(smaller(rows - start, CHUNK * LANES), LANES);
    for (index v = 0; v < vectors; v++) {
        vec *u_v = (vec *)own, *grad_v = u_v + inputs, *g_v = grad_v + inputs;
        index row = start + v * LANES, lanes = smaller(LANES, rows - row);
        transpose_rows(u, stack, row, rows, inputs, (real *)u_v);
        for (index j = 0; j < inputs; j++) grad_v[j] = (vec){0};
        for (index tile = first_tile; tile < last_tile; tile++) {
            const real *weights = shared + (tile - first_tile) * p->tile_space;
            index width = width_of(p, tile);
            strided of_tile = {g->data + tile * NODES * g->column, g->stack, g->row, g->column};
            transpose_rows(&of_tile, stack, row, rows, width, (real *)g_v);
            for (index j = 0; j < inputs; j++) {
                const real *panel = weights + row_of_pairs(j, inputs) * width;
#define CALL(w) share_gradient(grad_v, panel, u_v, g_v, j, inputs, w)
                BY_WIDTH(width, CALL)
#undef CALL
            }
        }
        for (index lane = 0; lane < lanes; lane++)
            for (index j = 0; j < inputs; j++) {
                real *out = grad + (row + lane) * inputs + j;
                *out = first_tile ? *out + grad_v[j][lane] : grad_v[j][lane];
            }
    }
}

static void share_stack(const plan *p, const strided *u, const strided *g, const source *from, index stack, real *grad,
                        real *work) {
#pragma omp parallel num_threads(p->threads) if (p->threads > 1)
    {
        real *own = work + p->shared + this_thread() * p->own;
        for (index first = 0; first < p->tiles; first += p->group) {
            index last = smaller(first + p->group, p->tiles);
            prepare_group(p, from, first, last, NULL, work, own);
#pragma omp for schedule(dynamic)
            for (index chunk = 0; chunk < parts_of(p->size.rows, CHUNK * LANES); chunk++)
                share_chunk(p, u, g, stack, first, last, chunk, work, own, grad);
        }
    }
}

/* grad (S, B, M) of the inputs, from the gradient g (S, B, N) of the values; scale as choquet_values left it. */
void EXPORT(choquet_input_gradient)(const real *u, index u_stack, index u_row, index u_column, const real *theta,
                                    int softmax, real *scale, const real *g, index g_stack, index g_row,
                                    index g_column, real *grad, index stacks, index rows, index inputs, index nodes,
                                    real *work, int threads) {
    plan p = make_plan(stacks, rows, inputs, nodes, threads);
    strided rows_of_u = {u, u_stack, u_row, u_column}, rows_of_g = {g, g_stack, g_row, g_column};
#pragma omp parallel for num_threads(p.teams) if (p.teams > 1) schedule(dynamic)
    for (index s = 0; s < stacks; s++) {
        source from = {theta + s * nodes * inputs * inputs, softmax ? scale + s * nodes * 2 : NULL, softmax};
        share_stack(&p, &rows_of_u, &rows_of_g, &from, s, grad + s * rows * inputs,
                    work + this_thread() * (p.shared + p.own));
    }
}

/* ---------------------------------------------------------------- gradient of the weights */

/* Slopes of the pairs (j, l >= j) for a tile: sums over the rows of g * min(u_j, u_l), added to those of rows before. */
static void slopes_of_row(const real *by_input, index batch, const real *g, index j, index inputs, index width,
                          int first_time, real *slopes) {
    index vectors = batch / LANES;
    const vec *own = (const vec *)(by_input + j * batch);
    for (index l = j; l < inputs; l++, slopes += width) {
        const vec *other = (const vec *)(by_input + l * batch);
        vec sums[NODES];
        real each[NODES];
#define CALL(w) sum_minima(sums, own, other, (const vec *)g, vectors, w)
        BY_WIDTH(width, CALL)
#undef CALL
        sum_each(sums, each);
        for (index n = 0; n < width; n++) slopes[n] = first_time ? each[n] : slopes[n] + each[n];
    }
}

typedef struct {
    const real *values, *mass, *g_mass; /* of the stack, for the softmax; g_mass may be missing */
} outcome;

/* From the slopes of a node to the gradient of its weights, or of the parameters whose softmax they are.
 *
 * d min = slope, d max = slope_j + slope_l - slope. By Proposition 1 the gradient of a parameter is its weight times
 * the difference between its slope and the mean slope, which is the gradient of the value times the value. */
static void finish_node(const plan *p, const source *from, const strided *g, index stack, index node, const outcome *out,
                        const real *slopes, real *own, real *grad) {
    index inputs = p->size.inputs, nodes = p->size.nodes, width = width_of(p, node / NODES);
    real *linear = own, mean = 0, mass_slope = 0;
    for (index j = 0; j < inputs; j++) linear[j] = slopes[row_of_pairs(j, inputs) * width];
    if (from->softmax) {
        double total = 0;
        for (index b = 0; b < p->size.rows; b++)
            total += (double)g->data[stack * g->stack + b * g->row + node * g->column] * out->values[b * nodes + node];
        mass_slope = out->g_mass ? out->g_mass[node] : 0;
        mean = (real)(total + (double)mass_slope * ((double)out->mass[node] - 1));
        node_weights(from, node, inputs, grad);
    } else
        for (index i = 0; i < inputs * inputs; i++) grad[i] = 1;
    for (index first = 0; first < inputs; first += BLOCK)
        for (index l = first + 1; l < inputs; l++)
            for (index j = first; j < smaller(first + BLOCK, l); j++) {
                real low = slopes[(row_of_pairs(j, inputs) + l - j) * width];
                grad[j * inputs + l] *= low - mean;
                grad[l * inputs + j] *= linear[j] + linear[l] - low - mean;
            }
    for (index j = 0; j < inputs; j++) grad[j * (inputs + 1)] *= linear[j] - mean - mass_slope;
}

static void slope_stack(const plan *p, const strided *u, const strided *g, const source *from, index stack,
                        const outcome *out, real *grad, real *work) {
    index inputs = p->size.inputs, rows = p->size.rows, nodes = p->size.nodes;
    real *slopes = work, *by_input = slopes + p->group * p->tile_space;
    real *by_node = by_input + round_up(inputs * (round_up(GRADIENT_ROWS) + 16));
#pragma omp parallel num_threads(p->threads) if (p->threads > 1)
    {
        real *own = work + p->shared + this_thread() * p->own;
        for (index first = 0; first < p->tiles; first += p->group) {
            index last = smaller(first + p->group, p->tiles);
            for (index start = 0; start < larger(rows, 1); start += GRADIENT_ROWS) {
                index vectors = parts_of(smaller(rows - start, GRADIENT_ROWS), LANES), batch = vectors * LANES;
#pragma omp for schedule(static)
                for (index v = 0; v < vectors; v++) {
                    transpose_rows(u, stack, start + v * LANES, rows, inputs, own);
                    for (index j = 0; j < inputs; j++)
                        *(vec *)(by_input + j * batch + v * LANES) = *(const vec *)(own + j * LANES);
                    for (index tile = first; tile < last; tile++) {
                        index width = width_of(p, tile);
                        strided of_tile = {g->data + tile * NODES * g->column, g->stack, g->row, g->column};
                        transpose_rows(&of_tile, stack, start + v * LANES, rows, width,
                                       by_node + ((tile - first) * NODES * batch + v * width * LANES));
                    }
                }
#pragma omp for schedule(dynamic, 4)
                for (index item = 0; item < (last - first) * inputs; item++) {
                    index tile = first + item / inputs, j = item % inputs, width = width_of(p, tile);
                    slopes_of_row(by_input, batch, by_node + (tile - first) * NODES * batch, j, inputs, width,
                                  start == 0, slopes + (tile - first) * p->tile_space + row_of_pairs(j, inputs) * width);
                }
            }
#pragma omp for schedule(dynamic)
            for (index node = nodes_before(p, first); node < nodes_before(p, last); node++)
                finish_node(p, from, g, stack, node, out,
                            slopes + (node / NODES - first) * p->tile_space + node % NODES, own,
                            grad + node * inputs * inputs);
        }
    }
    (void)nodes;
}

/* grad (S, N, M, M) of the weights; with softmax, of the parameters, to which the gradient of the mass also flows. */
void EXPORT(choquet_weight_gradient)(const real *u, index u_stack, index u_row, index u_column, const real *theta,
                                     int softmax, real *scale, const real *values, const real *mass, const real *g,
                                     index g_stack, index g_row, index g_column, const real *g_mass, real *grad,
                                     index stacks, index rows, index inputs, index nodes, real *work, int threads) {
    plan p = make_plan(stacks, rows, inputs, nodes, threads);
    strided rows_of_u = {u, u_stack, u_row, u_column}, rows_of_g = {g, g_stack, g_row, g_column};
#pragma omp parallel for num_threads(p.teams) if (p.teams > 1) schedule(dynamic)
    for (index s = 0; s < stacks; s++) {
        source from = {theta + s * nodes * inputs * inputs, softmax ? scale + s * nodes * 2 : NULL, softmax};
        outcome out = {values + s * rows * nodes, mass + s * nodes, g_mass ? g_mass + s * nodes : NULL};
        slope_stack(&p, &rows_of_u, &rows_of_g, &from, s, softmax ? &out : NULL, grad + s * nodes * inputs * inputs,
                    work + this_thread() * (p.shared + p.own));
    }
}

/* Threads that this library can use at all. */
int EXPORT(choquet_threads)(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}
