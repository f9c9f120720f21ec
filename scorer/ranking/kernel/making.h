/* How rows are made: sums over a machine's instances, credits and debits (docstrings: scorer/ranking/estimates). */
#include "row.h"

#define HALF_S 600.0    /* after so long a measurement has the weight of the expectation */
#define USE_MAX 4.0     /* a measured use counts as so many times what is asked, at most */
#define LATE_S 180.0    /* how far the last report of an instance may be from its end */
#define PEAK_S 60.0     /* a peak is the highest mean of so many seconds */
#define AGE_MAX_S 600.0 /* a figure of an instance is current until the machine's newest sample is so much later */
#define ENDED_S 60.0    /* for so long an agent still reports an ended instance */
#define OCTAVES 64      /* sizes as powers of two */
#define ONE_CORE 20     /* the octave of 1 to 2 cores */
#define REPORTING_S 60  /* of the peers' models: the time for which a placement counts as not measured */
#define NEAR 1e-9

enum { BASE_REQUEST, BASE_LARGER, BASE_LIMIT_FIRST };
enum { CREDITS_NONE, CREDITS_WINDOW, CREDITS_TRIMARAN, CREDITS_KOORDINATOR };
enum { MEAN = -1, OF_PROD = -2 }; /* beside the statistics by number */

typedef struct {
    int32_t base;
    int32_t learned;
    int64_t groups;
    double factor[R], fallback[R], unit[R]; /* of the profile */
    double parts[R];                        /* learned: what instances use of what they ask for */
    const int64_t *codes;                   /* [groups] sorted */
    const double *table;                    /* [groups][R] */
} Estimate;

/* Everything that rows are made from, but for the instances; W windows, K pairs of machine and instance. */
typedef struct {
    Estimate estimate;
    int64_t windows, pairs;
    const double *windows_s;         /* [W] */
    const double *mean, *filled;     /* [M][W][R] */
    const double *statistics, *prod; /* [M][W][STATISTICS][R], [M][W][R]; null where no plugin asks for them */
    const double *end, *step, *at;   /* [M] of the windows, of the slots, of the newest sample */
    const int64_t *position;         /* [M] the window that is used */
    const double *peak_at;           /* [M][DAYS][R] when the peak was */
    const int64_t *digests, *places; /* [K] sorted, and where each pair's figures are */
    const int64_t *systems;          /* [M] the pair of each machine's system */
    const double *used_at, *since;   /* [K] end of the last and of the first report */
    const double *recent, *usual;    /* [R][K] of half an hour; the same with the mean of a day */
    double day_start[DAYS], day_end[DAYS];
    int32_t credits, debits, by_reports, requests_alone;
    int64_t figures; /* the number of columns of the figures */
} Making;

static double rounded_to(double value, double unit) {
    return unit > 0 ? floor(value / unit + 0.5 + NEAR) * unit : value;
}

static const double *learned_parts(const Estimate *e, const Instance *one) {
    int octave = 0;
    if (one->amounts[CPU] > 0) {
        frexp(one->amounts[CPU], &octave);
        octave = octave - 1 + ONE_CORE;
        octave = octave < 1 ? 1 : octave > OCTAVES - 1 ? OCTAVES - 1 : octave;
    }
    int64_t wanted[3] = {one->kind * OCTAVES + octave, one->kind * OCTAVES, octave};
    for (int k = 0; k < 3; k++) {
        int64_t low = 0, high = e->groups;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (e->codes[middle] < wanted[k])
                low = middle + 1;
            else
                high = middle;
        }
        if (low < e->groups && e->codes[low] == wanted[k]) return e->table + low * R;
    }
    return e->parts;
}

/* Put into out [R] what an instance is expected to use (estimates/estimate.py). */
static void expected_of(const Estimate *e, const Instance *one, double *out) {
    const double *parts = e->learned ? learned_parts(e, one) : NULL;
    for (int r = 0; r < R; r++) {
        double limit = one->limits[r];
        double base = e->base == BASE_LARGER ? fmax(one->amounts[r], limit) : one->amounts[r];
        double value = rounded_to(base * e->factor[r], e->unit[r]);
        if (e->base == BASE_LARGER && limit > 0) value = less_of(value, limit);
        if (e->base == BASE_LARGER ? base <= 0 : one->missing[r]) value = e->fallback[r];
        if (e->base == BASE_LIMIT_FIRST && !isnan(limit)) value = limit;
        if (parts && !one->missing[r]) value *= parts[r];
        out[r] = isnan(one->expected[r]) ? value : one->expected[r];
    }
}

/* Return where the figures of a pair are, -1 where there are none. */
static int64_t figures_of(const Making *m, int64_t pair) {
    int64_t low = 0, high = m->pairs;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (m->digests[middle] < pair)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->pairs && m->digests[low] == pair ? m->places[low] : -1;
}

/* The same, -1 where they are not current on machine i. */
static int64_t current_figures(const Making *m, int64_t i, int64_t pair) {
    int64_t at = figures_of(m, pair);
    return at >= 0 && m->used_at[at] >= m->at[i] - AGE_MAX_S ? at : -1;
}

/* Put into share [R] which part of a window's filled slots began after a time; return how many slots did.
   Between the lengths of two windows the latest slots are taken as the filled ones. */
static double shown(const Making *m, int64_t i, double start, int64_t position, double *share) {
    for (int r = 0; r < R; r++) share[r] = 0.0;
    double age_s = m->end[i] - start;
    if (!(start > 0 && age_s > 0)) return 0.0;
    const double *filled = m->filled + i * (m->windows > 0 ? m->windows : 1) * R;
    double shorter_s = 0.0;
    for (int64_t w = 0; w <= position && w < m->windows; w++) {
        double part = more_of(floor((age_s - shorter_s) / m->step[i] + NEAR), 0.0);
        for (int r = 0; r < R; r++)
            share[r] += less_of(part, more_of(filled[w * R + r] - (w ? filled[(w - 1) * R + r] : 0.0), 0.0));
        shorter_s = m->windows_s[w];
    }
    for (int r = 0; r < R; r++) {
        double slots = filled[position * R + r];
        share[r] = slots > 0 ? less_of(share[r] / slots, 1.0) : 0.0;
    }
    return floor(age_s / m->step[i] + NEAR);
}

static double placed_at(const Instance *one) { return one->started_at > 0 ? one->started_at : one->reserved_at; }

/* Return whether a peer's model counts an instance. */
static int pending(const Making *m, int64_t i, const Instance *one) {
    if (m->credits == CREDITS_TRIMARAN)
        return isnan(m->end[i]) || floor(m->end[i]) - floor(placed_at(one)) < REPORTING_S;
    return isnan(m->at[i]) || placed_at(one) > m->at[i] - REPORTING_S;
}

static double quantile_of(int statistic) {
    static const double quantiles[STATISTICS] = {0.5, 0.9, 0.95, 0.99, 1.0};
    return quantiles[statistic];
}

/* Put into out [R] what an instance adds to a statistic over the window at a position. */
static void credit_of(const Making *m, int64_t i, const Instance *one, const double *expected, int64_t position,
                      int statistic, double *out) {
    double share[R];
    if (m->credits != CREDITS_WINDOW) {
        int counts = m->credits != CREDITS_NONE && pending(m, i, one);
        int64_t at = counts && m->credits == CREDITS_KOORDINATOR ? current_figures(m, i, one->pair) : -1;
        for (int r = 0; r < R; r++) {
            double known = at < 0 ? 0.0 : or_zero(m->recent[r * m->figures + at]);
            double missing = m->credits == CREDITS_KOORDINATOR ? more_of(expected[r] - known, 0.0) : expected[r];
            out[r] = counts ? missing : 0.0;
        }
        return;
    }
    double slots = shown(m, i, one->started_at, position, share);
    if (statistic >= 0) {
        double rest = 1.0 - quantile_of(statistic) + NEAR;
        for (int r = 0; r < R; r++) out[r] = (statistic == MAX ? slots < 1.0 : share[r] <= rest) ? expected[r] : 0.0;
        return;
    }
    int64_t at = m->by_reports && one->started_at > 0 ? figures_of(m, one->pair) : -1;
    double age_s = at < 0 ? 0.0 : m->used_at[at] - more_of(m->since[at], one->started_at);
    double weight = age_s > 0 ? age_s / (age_s + HALF_S) : 0.0;
    for (int r = 0; r < R; r++) {
        double value = expected[r];
        if (weight > 0 && r != MEMORY && isnan(one->expected[r]) && !one->missing[r]) {
            double used = m->usual[r * m->figures + at];
            if (!isnan(used)) value += (less_of(used, USE_MAX * one->amounts[r]) - expected[r]) * weight;
        }
        out[r] = value * (1.0 - share[r]);
    }
}

/* Put into out [R] what an instance adds to the peak of a day: nothing where it had started by then. */
static void peak_credit(const Making *m, int64_t i, const Instance *one, const double *expected, int day, double *out) {
    double started = m->credits == CREDITS_WINDOW ? one->started_at : placed_at(one);
    int minute = started + PEAK_S <= fmin(m->day_end[day], m->end[i]);
    for (int r = 0; r < R; r++) {
        double at = m->peak_at[(i * DAYS + day) * R + r];
        int inside = (isnan(at) ? minute : started <= at) || started < m->day_start[day];
        out[r] = m->credits == CREDITS_NONE || (started > 0 && inside) ? 0.0 : expected[r];
    }
}

/* Put into out [R] what a leaver used: as measured at its end, else as expected. */
static void used_by(const Making *m, const Instance *one, double *out) {
    expected_of(&m->estimate, one, out);
    int64_t at = figures_of(m, one->pair);
    if (at < 0 || !(m->used_at[at] > one->started_at && fabs(m->used_at[at] - one->ended_at) <= LATE_S)) return;
    for (int r = 0; r < R; r++)
        if (isfinite(m->recent[r * m->figures + at])) out[r] = m->recent[r * m->figures + at];
}

typedef struct {
    const Instance *const *live, *const *left;
    int64_t count, gone;
} There;

/* Return [R] of a statistic as measured over the window at a place. */
static const double *measured_of(const Making *m, int64_t i, int64_t place, int statistic) {
    int64_t window = i * (m->windows > 0 ? m->windows : 1) + place;
    if (statistic == MEAN) return m->mean + window * R;
    if (statistic == OF_PROD) return m->prod + window * R;
    return m->statistics + (window * STATISTICS + statistic) * R;
}

/* Put into out [R] a measured statistic less what is due to leavers; ``credit`` [R]: what is credited to it, or null.
   It is never below what was measured since the last of them ended, without what is credited (estimates/__init__.py). */
static void without_leavers(const Making *m, int64_t i, const There *there, int statistic, const double *credit,
                            double *out) {
    const double *measured = measured_of(m, i, m->position[i], statistic);
    for (int r = 0; r < R; r++) out[r] = measured[r];
    if (!m->debits || !there->gone) return;
    double debit[R] = {0}, since[R] = {0}, one[R], after[R], before[R], last = 0.0;
    for (int64_t k = 0; k < there->gone; k++) {
        const Instance *left = there->left[k];
        last = more_of(last, left->ended_at);
        if (statistic == OF_PROD && left->priority_class != PROD) continue;
        used_by(m, left, one);
        shown(m, i, left->started_at, m->position[i], before);
        shown(m, i, left->ended_at, m->position[i], after);
        for (int r = 0; r < R; r++) {
            double share = more_of(before[r] - after[r], 0.0);
            if (statistic >= 0) share = share > 1.0 - quantile_of(statistic) + NEAR ? 1.0 : 0.0;
            debit[r] += one[r] * share;
        }
    }
    for (int64_t w = 0; w < m->windows; w++) {
        if (!(m->end[i] - last >= m->windows_s[w])) continue;
        double own[R] = {0};
        for (int64_t k = 0; credit && k < there->count; k++) {
            const Instance *live = there->live[k];
            if (statistic == OF_PROD && live->priority_class != PROD) continue;
            if (live->started_at > 0 && !(m->end[i] - live->started_at < m->windows_s[w])) continue;
            double expected[R];
            expected_of(&m->estimate, live, expected);
            credit_of(m, i, live, expected, w, statistic, one);
            for (int r = 0; r < R; r++) own[r] += one[r];
        }
        const double *here = measured_of(m, i, w, statistic);
        for (int r = 0; r < R; r++) {
            double value = here[r] - (credit ? more_of(credit[r] - own[r], 0.0) : 0.0);
            if (isfinite(value)) since[r] = value;
        }
    }
    for (int r = 0; r < R; r++) {
        double bound = less_of(measured[r], more_of(since[r], 0.0));
        out[r] = isnan(measured[r]) ? measured[r] : more_of(measured[r] - debit[r], bound);
    }
}

/* Put what follows from the other fields into theirs. */
static void derive(Row *row, const More *c) {
    for (int r = 0; r < R; r++) {
        row->utilization[r] = row->mean[r] * row->inverse[r];
        double present = fmax(c->estimated[r], row->mean[r]);
        for (int d = 0; d < DAYS; d++)
            row->peak[d][r] = least(c->peak_sum[d][r], fmax(c->measured_peak[d][r], present));
    }
}

/* The mean usage by class prod: as samples split it, else the sum over its instances where those are measured. */
static void make_prod(const Making *m, int64_t i, const There *there, const Row *row, More *c) {
    double credit[R] = {0}, used[R] = {0}, expected[R], one[R];
    int credited = m->credits != CREDITS_NONE && !m->requests_alone, settled = 0;
    for (int64_t k = 0; k < there->count; k++) {
        const Instance *live = there->live[k];
        if (live->priority_class != PROD) continue;
        expected_of(&m->estimate, live, expected);
        credit_of(m, i, live, expected, m->position[i], MEAN, one);
        int64_t at = current_figures(m, i, live->pair);
        for (int r = 0; r < R; r++) {
            double known = at < 0 ? NAN : m->recent[r * m->figures + at];
            credit[r] += one[r];
            if (m->credits == CREDITS_KOORDINATOR)
                used[r] += or_zero(known) + one[r];
            else
                used[r] += !isnan(known) ? known : credited ? expected[r] : 0.0;
        }
        settled |= live->started_at > 0 && m->at[i] - live->started_at >= AGE_MAX_S;
    }
    if (credited)
        without_leavers(m, i, there, OF_PROD, credit, c->prod);
    else
        for (int r = 0; r < R; r++) c->prod[r] = measured_of(m, i, m->position[i], OF_PROD)[r];
    for (int r = 0; r < R; r++) {
        if (credited) c->prod[r] += credit[r];
        if (isnan(c->prod[r]) && (c->has_report || (row->has_data && !settled))) c->prod[r] = used[r];
    }
}

/* What the instances of each class ask for and use (scorer/classes/strategy.py has the planes). */
static void make_classes(const Making *m, int64_t i, const There *there, ByClass *by) {
    for (int k = 0; k < PLANES * CLASSES * R; k++) (&by->sums[0][0][0])[k] = 0.0;
    for (int r = 0; r < R; r++) by->ended_lower[r] = 0.0;
    for (int64_t k = 0; k < there->count; k++) {
        const Instance *live = there->live[k];
        int64_t at = current_figures(m, i, live->pair);
        for (int r = 0; r < R; r++) {
            double asked = live->amounts[r], known = at < 0 ? NAN : m->recent[r * m->figures + at];
            double used = isfinite(known) ? known : 0.0, unmeasured = isfinite(known) ? 0.0 : asked;
            double counted = live->keeps >> r & 1 ? asked : used + unmeasured;
            double planes[PLANES] = {asked, used, unmeasured, counted, more_of(asked, used)};
            for (int plane = 0; plane < PLANES; plane++) by->sums[plane][live->priority_class][r] += planes[plane];
        }
    }
    for (int64_t k = 0; k < there->gone; k++) {
        const Instance *left = there->left[k];
        int64_t at = left->priority_class > 1 ? current_figures(m, i, left->pair) : -1;
        for (int r = 0; at >= 0 && r < R && m->used_at[at] <= left->ended_at + ENDED_S; r++)
            by->ended_lower[r] += or_zero(m->recent[r * m->figures + at]);
    }
}

/* Make the part of a row that the ledger changes; by: null where no filter counts by class. */
static void make_row(const Making *m, int64_t i, const There *there, Row *row, More *c, ByClass *by) {
    double expected[R], one[R];
    int credited = m->credits != CREDITS_NONE && !m->requests_alone;
    int64_t system = current_figures(m, i, m->systems[i]);
    c->has_report = system >= 0;
    row->maxmemory = 0.0;
    row->count = there->count;
    for (int r = 0; r < R; r++) {
        c->system[r] = system < 0 ? NAN : m->recent[r * m->figures + system];
        row->allocated[r] = c->estimated[r] = c->limited[r] = c->missing[r] = c->credit[r] = 0.0;
        for (int d = 0; d < DAYS; d++) c->peak_sum[d][r] = 0.0;
    }
    double of_statistics[STATISTICS][R] = {{0}};
    for (int64_t k = 0; k < there->count; k++) {
        const Instance *live = there->live[k];
        expected_of(&m->estimate, live, expected);
        row->maxmemory += live->maxmemory;
        for (int r = 0; r < R; r++) {
            row->allocated[r] += live->amounts[r];
            c->estimated[r] += expected[r];
            c->limited[r] += fmax(live->limits[r], live->amounts[r]);
            c->missing[r] += live->missing[r];
        }
        if (!credited) continue;
        credit_of(m, i, live, expected, m->position[i], MEAN, one);
        for (int r = 0; r < R; r++) c->credit[r] += one[r];
        for (int d = 0; d < DAYS; d++) {
            peak_credit(m, i, live, expected, d, one);
            for (int r = 0; r < R; r++) c->peak_sum[d][r] += one[r];
        }
        for (int s = 0; m->statistics && s < STATISTICS; s++) {
            credit_of(m, i, live, expected, m->position[i], s, one);
            for (int r = 0; r < R; r++) of_statistics[s][r] += one[r];
        }
    }
    const double *measured = measured_of(m, i, m->position[i], MEAN);
    double rest[R];
    without_leavers(m, i, there, MEAN, c->credit, rest);
    for (int r = 0; r < R; r++) {
        c->remaining[r] = measured[r];
        row->mean[r] = credited ? rest[r] + c->credit[r] : measured[r];
        if (m->requests_alone) row->mean[r] = isnan(row->allocatable[r]) ? NAN : row->allocated[r];
        for (int d = 0; d < DAYS; d++) c->peak_sum[d][r] += c->measured_peak[d][r];
    }
    if (credited) without_leavers(m, i, there, MEAN, NULL, c->remaining);
    for (int s = 0; m->statistics && s < STATISTICS; s++) {
        for (int r = 0; r < R; r++) rest[r] = measured_of(m, i, m->position[i], s)[r];
        if (credited) without_leavers(m, i, there, s, of_statistics[s], rest);
        for (int r = 0; r < R; r++)
            c->statistics[s][r] = m->requests_alone ? row->mean[r] : rest[r] + of_statistics[s][r];
    }
    if (m->prod) make_prod(m, i, there, row, c);
    if (by) make_classes(m, i, there, by);
    derive(row, c);
}

/* Add so many more instances of the request: they have not started, so they count in full everywhere. */
static void add_copies(const Making *m, const Query *q, double times, Row *row, More *c) {
    row->maxmemory += times * q->maxmemory;
    row->count += (int64_t)times;
    for (int r = 0; r < R; r++) {
        double more = m->requests_alone ? q->amounts[r] : m->credits == CREDITS_NONE ? 0.0 : q->expected[r];
        more *= times;
        row->allocated[r] += times * q->amounts[r];
        row->mean[r] += more;
        c->estimated[r] += times * q->expected[r];
        c->limited[r] += times * q->limits[r];
        c->missing[r] += times * q->missing[r];
        if (!m->requests_alone) c->credit[r] += more;
        for (int d = 0; d < DAYS && !m->requests_alone; d++) c->peak_sum[d][r] += more;
        for (int s = 0; s < STATISTICS; s++) c->statistics[s][r] += more;
        if (q->priority_class == PROD) c->prod[r] += more;
    }
    derive(row, c);
}
