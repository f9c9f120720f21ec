/* Filters and scores over all rows: a loop a plugin over blocks of rows, the best rows, and batches of copies. */
#include "making.h"

#define LANES 8     /* of a loop that compilers turn into vectors */
#define BLOCK 64    /* so many rows stay in the first cache from one plugin to the next */
#define CODE 256    /* a refusal is: the filter's place in the profile, from 1, times CODE, plus its reason */
#define TIE 1e-9    /* totals in the same whole number of these are equal */
#define EQUAL 1e-12 /* scores that differ by less, relatively, are equal */
#define SCORES_MAX 32
#define COLUMNS_MAX 64 /* of one filter */
#define FOREIGN (-1)   /* a score of another package, which has its values already */

/* How the values of a score are spread over the feasible machines: by the profile, and before that by the score. */
enum { AS_IT_IS, MIN_MAX, GIVEN };
enum { PLAIN, OF_MEANS, SHARE, SHARE_WHOLE, SHARE_REVERSED, SHARE_REVERSED_WHOLE, LEAST_BEST, LEAST_BEST_WHOLE };

/* One filter or score of a profile, for one request. */
typedef struct {
    const Row *rows;
    const More *more;
    const Row *patched_rows; /* the rows of `Patches`, under this plugin's load model */
    const More *patched_more;
    const Query *query;
    /* The same for every request of a profile. */
    const void *settings;
    int64_t plugin;     /* its number among the filters or the scores */
    int64_t code;       /* of a filter: what is added to its reason */
    int64_t inner, how; /* of a score */
    double weight;
    /* Of this request. */
    double slope, start;
    double *raw;     /* [M] of a score */
    double *columns; /* [M][width] what the plugin reads of each machine besides; null without any */
    double *own;     /* [width] what a copy of the request adds to the columns of its machine; null: nothing */
    int64_t width;
} Use;

/* Rows that differ from those of the fleet: proposed changes. */
typedef struct {
    int64_t count;
    int64_t *index; /* [count] the machine of each */
} Patches;

typedef int64_t (*FilterOf)(const Row *, const More *, const Query *, const void *, const double *, double *);
typedef double (*ScoreOf)(const Row *, const More *, const Query *, const void *, const double *, double *);
typedef void (*FilterLoop)(const Use *, int64_t, int64_t, int32_t *);
typedef void (*ScoreLoop)(const Use *, int64_t, int64_t, const int32_t *);
typedef void (*SlopeLoop)(const Use *, int64_t, const Patches *, int, double *);

#define COLUMNS_OF(u, i) ((u)->columns ? (u)->columns + (i) * (u)->width : NULL)

#define FILTER(name, Settings)                                                                                   \
    static int64_t one_##name(const Row *m, const More *c, const Query *q, const void *p, const double *x,       \
                              double *said) {                                                                    \
        return name(m, c, q, (const Settings *)p, x, said);                                                      \
    }                                                                                                            \
    static void loop_##name(const Use *u, int64_t from, int64_t to, int32_t *refused) {                          \
        for (int64_t i = from; i < to; i++) {                                                                    \
            if (refused[i]) continue;                                                                            \
            int64_t why =                                                                                        \
                name(u->rows + i, u->more + i, u->query, (const Settings *)u->settings, COLUMNS_OF(u, i), NULL); \
            if (why) refused[i] = (int32_t)(u->code + why);                                                      \
        }                                                                                                        \
    }

#define SCORE(name, Settings)                                                                                        \
    static double one_##name(const Row *m, const More *c, const Query *q, const void *p, const double *x,            \
                             double *said) {                                                                         \
        return name(m, c, q, (const Settings *)p, x, said);                                                          \
    }                                                                                                                \
    static void loop_##name(const Use *u, int64_t from, int64_t to, const int32_t *refused) {                        \
        double *restrict raw = u->raw;                                                                               \
        for (int64_t i = from; i < to; i++)                                                                          \
            if (!refused[i])                                                                                         \
                raw[i] =                                                                                             \
                    name(u->rows + i, u->more + i, u->query, (const Settings *)u->settings, COLUMNS_OF(u, i), NULL); \
    }

/* Of a score of the fleet's means: name_slope says by how much it falls where the mean of a resource rises by one. */
#define SCORE_OF_MEANS(name, Settings)                                                                       \
    SCORE(name, Settings)                                                                                    \
    static void slope_##name(const Use *u, int64_t machines, const Patches *patches, int r, double *slope) { \
        const Settings *p = (const Settings *)u->settings;                                                   \
        for (int64_t i = 0; i < machines; i++) slope[i] = name##_slope(u->rows + i, u->query, p, r);         \
        for (int64_t k = 0; k < patches->count; k++)                                                         \
            slope[patches->index[k]] = name##_slope(u->patched_rows + k, u->query, p, r);                    \
    }

typedef struct {
    const char *name;
    FilterLoop loop;
    FilterOf one;
    size_t settings;
} FilterEntry;

typedef struct {
    const char *name;
    ScoreLoop loop;
    ScoreOf one;
    size_t settings;
    SlopeLoop slope; /* of a score of the fleet's means */
} ScoreEntry;

#define FILTER_ENTRY(name, Settings) {#name, loop_##name, one_##name, sizeof(Settings)}
#define SCORE_ENTRY(name, Settings) {#name, loop_##name, one_##name, sizeof(Settings), NULL}
#define MEANS_ENTRY(name, Settings) {#name, loop_##name, one_##name, sizeof(Settings), slope_##name}

/* Settings of a plugin that has none. */
typedef struct {
    int64_t none;
} None;

extern const FilterEntry FILTERS[];
extern const ScoreEntry SCORES[];

/* Evaluate patched row k anew. */
static void evaluate_patch(int64_t k, int64_t i, const Use *filters, int64_t filter_count, const Use *scores,
                           int64_t score_count, int32_t *refused, int fresh) {
    if (fresh) refused[i] = 0;
    for (int64_t f = 0; f < filter_count && !refused[i]; f++) {
        const Use *u = filters + f;
        int64_t why = FILTERS[u->plugin].one(u->patched_rows + k, u->patched_more + k, u->query, u->settings,
                                             COLUMNS_OF(u, i), NULL);
        if (why) refused[i] = (int32_t)(u->code + why);
    }
    for (int64_t s = 0; s < score_count && !refused[i]; s++) {
        const Use *u = scores + s;
        if (u->plugin == FOREIGN) continue;
        u->raw[i] = SCORES[u->plugin].one(u->patched_rows + k, u->patched_more + k, u->query, u->settings,
                                          COLUMNS_OF(u, i), NULL);
    }
}

/* Put into refused [M] the first refusal of each machine, 0 where none refuses it; into each score's raw its values of
   the others. Refusals that are there stay: filters that are no C functions have made them. */
void evaluate(int64_t machines, const Use *filters, int64_t filter_count, const Use *scores, int64_t score_count,
              const Patches *patches, int32_t *refused) {
    for (int64_t k = 0; k < patches->count; k++)
        if (refused[patches->index[k]] == 0) refused[patches->index[k]] = -1; /* evaluated below, by its own row */
    for (int64_t from = 0; from < machines; from += BLOCK) {
        int64_t to = machines - from < BLOCK ? machines : from + BLOCK;
        for (int64_t f = 0; f < filter_count; f++) FILTERS[filters[f].plugin].loop(filters + f, from, to, refused);
        for (int64_t s = 0; s < score_count; s++)
            if (scores[s].plugin != FOREIGN) SCORES[scores[s].plugin].loop(scores + s, from, to, refused);
    }
    for (int64_t k = 0; k < patches->count; k++) {
        int64_t i = patches->index[k];
        if (refused[i] == -1) evaluate_patch(k, i, filters, filter_count, scores, score_count, refused, 1);
    }
}

/* Return the refusal or the value of one machine, as the loops do, and put into said the numbers behind it. */
double explain(const Use *use, int64_t is_score, int64_t i, int64_t patch, double *said) {
    const Row *row = patch < 0 ? use->rows + i : use->patched_rows + patch;
    const More *more = patch < 0 ? use->more + i : use->patched_more + patch;
    const double *x = COLUMNS_OF(use, i);
    if (is_score) return SCORES[use->plugin].one(row, more, use->query, use->settings, x, said);
    return (double)FILTERS[use->plugin].one(row, more, use->query, use->settings, x, said);
}

/* Put into the query the mean utilization of the fleet, and one by the number of machines, where it is known; ``load``:
   its sums; with ``refused`` those of the machines that are not refused are added up. */
void fleet_means(int64_t machines, const Row *rows, const Row *patched, const Patches *patches, const int32_t *refused,
                 const Load *load, Query *q) {
    Load now = {{0}, {0}};
    if (!refused) now = *load;
    for (int64_t i = 0; refused && i < machines; i++)
        if (!refused[i]) add_load(&now, rows + i, 1.0);
    for (int64_t k = 0; k < patches->count; k++) {
        int64_t i = patches->index[k];
        if (refused && refused[i]) continue;
        for (int r = 0; r < R; r++) {
            double after = patched[k].utilization[r], before = rows[i].utilization[r];
            if (!isnan(after) && !isnan(before)) now.sum[r] += after - before;
        }
    }
    for (int r = 0; r < R; r++) {
        q->fleet_mean[r] = now.sum[r] / more_of(now.count[r], 1.0);
        q->fleet_share[r] = 1.0 / more_of(now.count[r], 1.0);
    }
}

/* Put the lowest and the highest value of the feasible machines into low and high; infinities without any. In lanes,
   which compilers turn into vectors: 1.6 us for 5,000 machines in place of 12.5. */
static void ends_of(int64_t machines, const int32_t *refused, const double *values, double *low, double *high) {
    double lows[LANES], highs[LANES];
    for (int l = 0; l < LANES; l++) {
        lows[l] = INFINITY;
        highs[l] = -INFINITY;
    }
    for (int64_t i = 0; i + LANES <= machines; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            lows[l] = less_of(refused[i + l] ? INFINITY : values[i + l], lows[l]);
            highs[l] = more_of(refused[i + l] ? -INFINITY : values[i + l], highs[l]);
        }
    }
    *low = INFINITY;
    *high = -INFINITY;
    for (int64_t i = machines - machines % LANES; i < machines; i++) {
        if (refused[i]) continue;
        *low = less_of(values[i], *low);
        *high = more_of(values[i], *high);
    }
    for (int l = 0; l < LANES; l++) {
        *low = less_of(lows[l], *low);
        *high = more_of(highs[l], *high);
    }
}

/* Put into out the values of a score that compares machines, for some rows; low, high: the ends of the feasible ones. */
static void compared(int64_t from, int64_t to, const int32_t *refused, int64_t inner, double low, double high,
                     const double *raw, double *out) {
    for (int64_t i = from; i < to; i++) {
        if (refused[i]) continue;
        double value = raw[i];
        if (inner == OF_MEANS) {
            out[i] = clip(value, 0.0, 100.0);
        } else if (inner >= LEAST_BEST) {
            double scaled = 100.0 * (value - low) / (high - low), score = low == 0 && high == 0 ? value : 100.0;
            if (low != high) score = 100.0 - (inner == LEAST_BEST_WHOLE ? trunc(scaled) : scaled);
            out[i] = isnan(value) ? 0.0 : clip(score, 0.0, 100.0);
        } else {
            int reversed = inner >= SHARE_REVERSED;
            double share = high > 0 ? clip(100.0 * value / high, 0.0, 100.0) : 0.0;
            if (inner == SHARE_WHOLE || inner == SHARE_REVERSED_WHOLE) share = floor(share + 1e-9);
            out[i] = isnan(value) ? 0.0 : reversed ? 100.0 - share : share;
        }
    }
}

/* Put in place of the raw values of scores that compare machines what they are among the feasible ones. */
void compare(int64_t machines, const int32_t *refused, Use *scores, int64_t score_count) {
    for (int64_t s = 0; s < score_count; s++) {
        Use *u = scores + s;
        double low, high;
        if (u->inner == PLAIN) continue;
        ends_of(machines, refused, u->raw, &low, &high);
        compared(0, machines, refused, u->inner, low, high, u->raw, u->raw);
    }
}

static void slopes(int64_t machines, const int32_t *refused, Use *u, const double *values) {
    if (u->how == GIVEN) return;
    u->slope = 1.0;
    u->start = 0.0;
    double low, high;
    if (u->how == AS_IT_IS) return;
    ends_of(machines, refused, values, &low, &high);
    if (low > high) return;
    if (high - low <= EQUAL * more_of(fabs(low), fabs(high))) {
        u->slope = 0.0;
        u->start = 100.0;
    } else {
        u->slope = 100.0 / (high - low);
        u->start = -low * u->slope;
    }
}

/* Return whether a machine comes before another: by the total in whole ties, then by the order of ties. */
static int better(double total, uint64_t order, double than, uint64_t than_order) {
    double a = rint(total / TIE), b = rint(than / TIE);
    return a > b || (a == b && order < than_order);
}

static int64_t insert(const double *total, const uint64_t *order, int64_t *best, int64_t found, int64_t most,
                      int64_t i) {
    if (found == most) {
        int64_t last = best[found - 1];
        if (total[i] < total[last] - 2 * TIE || !better(total[i], order[i], total[last], order[last])) return found;
    } else {
        found++;
    }
    int64_t at = found - 1;
    while (at > 0 && better(total[i], order[i], total[best[at - 1]], order[best[at - 1]])) {
        best[at] = best[at - 1];
        at--;
    }
    best[at] = i;
    return found;
}

/* Return the best rows among some machines, of totals that are there. */
int64_t best_among(int64_t machines, const int32_t *refused, const double *total, const uint64_t *order,
                   const uint8_t *only, int64_t *best, int64_t most) {
    int64_t found = 0;
    for (int64_t from = 0; from < machines && most; from += BLOCK) {
        int64_t to = machines - from < BLOCK ? machines : from + BLOCK;
        double low, high;
        ends_of(to - from, refused + from, total + from, &low, &high);
        if (found == most && high < total[best[most - 1]] - 2 * TIE) continue; /* none of these */
        for (int64_t i = from; i < to; i++)
            if (!refused[i] && (!only || only[i])) found = insert(total, order, best, found, most, i);
    }
    return found;
}

/* Put into total [M] the weighted mean of the scores' values, into best the rows of the ``most`` best machines; return
   how many. The totals of refused machines are without meaning. */
static int64_t choose(int64_t machines, const int32_t *refused, const Use *scores, const double *const *values,
                      int64_t score_count, const uint64_t *order, double *total, int64_t *best, int64_t most) {
    double whole = 0.0, constant = 0.0, factor[SCORES_MAX];
    for (int64_t s = 0; s < score_count; s++) whole += scores[s].weight;
    for (int64_t s = 0; s < score_count; s++) {
        factor[s] = scores[s].slope * (scores[s].weight / whole);
        constant += scores[s].start * (scores[s].weight / whole);
    }
    for (int64_t from = 0; from < machines; from += BLOCK) {
        int64_t to = machines - from < BLOCK ? machines : from + BLOCK;
        for (int64_t i = from; i < to; i++) total[i] = constant;
        for (int64_t s = 0; s < score_count; s++)
            for (int64_t i = from; i < to; i++) total[i] += values[s][i] * factor[s];
    }
    return best_among(machines, refused, total, order, NULL, best, most);
}

/* Spread the values, add them up, find the best; put into counts how many machines each refusal has. */
int64_t finish(int64_t machines, const int32_t *refused, Use *scores, int64_t score_count, const uint64_t *order,
               double *total, int64_t *best, int64_t most, int64_t *counts) {
    const double *values[SCORES_MAX];
    for (int64_t s = 0; s < score_count; s++) {
        values[s] = scores[s].raw;
        slopes(machines, refused, scores + s, scores[s].raw);
    }
    int64_t found = choose(machines, refused, scores, values, score_count, order, total, best, most);
    for (int64_t i = 0; i < machines; i++) {
        if (refused[i]) total[i] = 0.0;
        if (counts) counts[refused[i]]++;
    }
    return found;
}

/* One load model of a batch: its rows, the requests under it, and the query that plugins read: one of them at a time. */
typedef struct {
    const Making *making;
    const Row *rows;
    const More *more;
    Row *patched_rows;
    More *patched_more;
    Query *query;
    const Query *queries;
    const Load *load;
} Model;

/* Put into out [M] the values of a score of the fleet's means after those of the resources have moved. */
static void after_moves(int64_t machines, const double *raw, double *const *slope, const double *moved, double *out) {
    for (int64_t from = 0; from < machines; from += BLOCK) {
        int64_t to = machines - from < BLOCK ? machines : from + BLOCK;
        for (int64_t i = from; i < to; i++) out[i] = raw[i];
        for (int64_t r = 0; r < R; r++)
            for (int64_t i = from; slope[r] && i < to; i++) out[i] -= slope[r][i] * moved[r];
        for (int64_t i = from; i < to; i++) out[i] = clip(out[i], 0.0, 100.0);
    }
}

/* Add a copy of the request to the patch of machine i, and to its columns; put into moved [R] what that adds to the
   fleet's means under the model ``of_means``. Return the place of the patch. */
static int64_t add_copy(int64_t i, const Use *filters, int64_t filter_count, const Use *scores, int64_t score_count,
                        const Model *models, int64_t model_count, int64_t of_means, Patches *patches, int64_t *place_of,
                        double *moved) {
    int64_t k = place_of[i];
    if (k < 0) {
        k = place_of[i] = patches->count++;
        patches->index[k] = i;
        for (int64_t t = 0; t < model_count; t++) {
            models[t].patched_rows[k] = models[t].rows[i];
            models[t].patched_more[k] = models[t].more[i];
        }
    }
    for (int64_t t = 0; t < model_count; t++) {
        Row *row = models[t].patched_rows + k;
        double before[R];
        for (int64_t r = 0; r < R; r++) before[r] = row->utilization[r];
        add_copies(models[t].making, models[t].query, 1.0, row, models[t].patched_more + k);
        for (int64_t r = 0; r < R && t == of_means; r++)
            if (!isnan(before[r])) moved[r] += (row->utilization[r] - before[r]) * models[t].query->fleet_share[r];
    }
    for (int64_t f = 0; f < filter_count + score_count; f++) {
        const Use *u = f < filter_count ? filters + f : scores + (f - filter_count);
        for (int64_t w = 0; u->own && w < u->width; w++) u->columns[i * u->width + w] += u->own[w];
    }
    return k;
}

/* Place copies [kinds] of each request, each on the machine that one-by-one chooses: evaluate all, take the best, add
   the copy to its row, evaluate that row, correct the scores for the changed means, choose again. Put the rows into
   chosen; return how many found a machine: the first without one ends the batch, and refused has the reasons.
   ``of_means``: the model whose means the scores use, -1 where none does. ``place_of`` [M]: where each machine's patch
   is, or -1. ``work``: (1 + (1 + R) score_count) M numbers. */
int64_t place_copies(int64_t machines, const Use *filters, int64_t filter_count, Use *scores, int64_t score_count,
                     const Model *models, int64_t model_count, int64_t of_means, Patches *patches, int64_t *place_of,
                     int32_t *refused, const uint64_t *order, int64_t kinds, const int64_t *copies, int64_t *chosen,
                     double *work) {
    int64_t placed = 0;
    for (int64_t kind = 0; kind < kinds; kind++) {
        const double *values[SCORES_MAX];
        double lows[SCORES_MAX], highs[SCORES_MAX];
        double *slope[SCORES_MAX][R] = {{NULL}}, moved[R] = {0}, *total = work, *next = work + machines;
        for (int64_t t = 0; t < model_count; t++) {
            const Model *m = models + t;
            *m->query = m->queries[kind];
            fleet_means(machines, m->rows, m->patched_rows, patches, NULL, m->load, m->query);
        }
        for (int64_t i = 0; i < machines; i++) refused[i] = 0;
        evaluate(machines, filters, filter_count, scores, score_count, patches, refused);
        for (int64_t s = 0; s < score_count; s++) {
            values[s] = scores[s].inner == PLAIN ? scores[s].raw : next;
            if (scores[s].inner != PLAIN) next += machines;
            if (scores[s].inner != OF_MEANS || copies[kind] == 1) continue;
            for (int64_t r = 0; r < R; r++) {
                if (!(scores[s].query->expected[r] > 0)) continue;
                slope[s][r] = next;
                next += machines;
                SCORES[scores[s].plugin].slope(scores + s, machines, patches, (int)r, slope[s][r]);
            }
        }
        for (int64_t j = 0; j < copies[kind]; j++) {
            for (int64_t s = 0; s < score_count; s++) {
                double *out = (double *)values[s];
                if (scores[s].inner == OF_MEANS)
                    after_moves(machines, scores[s].raw, slope[s], moved, out);
                else if (scores[s].inner != PLAIN) {
                    double low, high;
                    ends_of(machines, refused, scores[s].raw, &low, &high);
                    int same = j && low == lows[s] && high == highs[s]; /* then the last machine alone has another */
                    int64_t last = same ? chosen[placed - 1] : 0;
                    compared(last, same ? last + 1 : machines, refused, scores[s].inner, low, high, scores[s].raw, out);
                    lows[s] = low;
                    highs[s] = high;
                }
                slopes(machines, refused, scores + s, values[s]);
            }
            int64_t *best = chosen + placed;
            if (!choose(machines, refused, scores, values, score_count, order, total, best, 1)) return placed;
            int64_t k = add_copy(*best, filters, filter_count, scores, score_count, models, model_count, of_means,
                                 patches, place_of, moved);
            if (j + 1 < copies[kind]) evaluate_patch(k, *best, filters, filter_count, scores, score_count, refused, 1);
            placed++;
        }
    }
    return placed;
}

/* Return what refuses one more copy on a machine that has so many already; 0 where nothing does. */
static int64_t refusal_with(int64_t i, int64_t patch, double copies, const Use *filters, int64_t filter_count,
                            const Model *models, int64_t model_count) {
    Row row;
    More more;
    double x[COLUMNS_MAX];
    for (int64_t f = 0; f < filter_count; f++) {
        const Use *u = filters + f;
        const Model *model = models;
        while (model < models + model_count - 1 && model->rows != u->rows) model++;
        row = patch < 0 ? u->rows[i] : u->patched_rows[patch];
        more = patch < 0 ? u->more[i] : u->patched_more[patch];
        add_copies(model->making, u->query, copies, &row, &more);
        for (int64_t w = 0; w < u->width; w++)
            x[w] = u->columns[i * u->width + w] + (u->own ? copies * u->own[w] : 0.0);
        int64_t why = FILTERS[u->plugin].one(&row, &more, u->query, u->settings, u->columns ? x : NULL, NULL);
        if (why) return u->code + why;
    }
    return 0;
}

/* Put into copies [M] how many copies each feasible machine takes until one more is refused, ``most`` at most, by
   doubling and halving; into refused what refuses the next one. */
void room(int64_t machines, const Use *filters, int64_t filter_count, const Model *models, int64_t model_count,
          const int64_t *place_of, int64_t most, int32_t *refused, int64_t *copies) {
    for (int64_t i = 0; i < machines; i++) {
        int64_t low = 1, high = 1, why = 0;
        copies[i] = 0;
        if (refused[i]) continue;
        while (high < most) {
            why = refusal_with(i, place_of[i], (double)high, filters, filter_count, models, model_count);
            if (why) break;
            low = high + 1;
            high *= 2;
        }
        if (!why) high = most;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (refusal_with(i, place_of[i], (double)middle, filters, filter_count, models, model_count))
                high = middle;
            else
                low = middle + 1;
        }
        copies[i] = low;
        refused[i] = (int32_t)refusal_with(i, place_of[i], (double)low, filters, filter_count, models, model_count);
    }
}

/* The same as `explain` of all machines, without what-ifs: said is [M][width]. */
void explain_all(const Use *use, int64_t is_score, int64_t machines, int64_t width, double *said) {
    for (int64_t i = 0; i < machines; i++) explain(use, is_score, i, -1, said + i * width);
}
