/* The library: every filter and score, and the tables by which Python finds them. One file, so that all is inlined. */
#include "evaluate.h"
#include "allocation.h"

/* All filters have one signature, and all scores; few use every argument. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "../filters/affinity.c"
#include "../filters/cordon.c"
#include "../filters/daily_peak.c"
#include "../filters/fits.c"
#include "../filters/fresh.c"
#include "../filters/machine_name.c"
#include "../filters/masters.c"
#include "../filters/maxmemory.c"
#include "../filters/memory_pressure.c"
#include "../filters/ports.c"
#include "../filters/selector.c"
#include "../filters/taints.c"
#include "../filters/usage_threshold.c"
#include "../filters/warming.c"

#include "../scores/apart.c"
#include "../scores/balanced_allocation.c"
#include "../scores/data_locality.c"
#include "../scores/expected_overload.c"
#include "../scores/failed_starts.c"
#include "../scores/global_variance.c"
#include "../scores/least_allocated.c"
#include "../scores/load_aware.c"
#include "../scores/load_variation_risk.c"
#include "../scores/low_risk_overcommitment.c"
#include "../scores/expression.c"
#include "../scores/machine_preference.c"
#include "../scores/most_allocated.c"
#include "../scores/peaks.c"
#include "../scores/requested_to_capacity_ratio.c"
#include "../scores/spread.c"
#include "../scores/taint_preference.c"
#include "../scores/target_load_packing.c"
#pragma GCC diagnostic pop

const FilterEntry FILTERS[] = {
    FILTER_ENTRY(machine_name, None),
    FILTER_ENTRY(cordon, None),
    FILTER_ENTRY(taints, None),
    FILTER_ENTRY(selector, None),
    FILTER_ENTRY(fresh, Fresh),
    FILTER_ENTRY(warming, Warming),
    FILTER_ENTRY(fits, Fits),
    FILTER_ENTRY(usage_threshold, UsageThreshold),
    FILTER_ENTRY(daily_peak, DailyPeak),
    FILTER_ENTRY(memory_pressure, MemoryPressure),
    FILTER_ENTRY(ports, None),
    FILTER_ENTRY(maxmemory, Maxmemory),
    FILTER_ENTRY(masters, None),
    FILTER_ENTRY(affinity, None),
    FILTER_ENTRY(anti_affinity, None),
    {NULL, NULL, NULL, 0},
};

const ScoreEntry SCORES[] = {
    MEANS_ENTRY(global_variance, GlobalVariance),
    MEANS_ENTRY(expected_overload, ExpectedOverload),
    SCORE_ENTRY(load_variation_risk, LoadVariationRisk),
    SCORE_ENTRY(target_load_packing, TargetLoadPacking),
    SCORE_ENTRY(low_risk_overcommitment, LowRiskOvercommitment),
    SCORE_ENTRY(peaks, Peaks),
    SCORE_ENTRY(load_aware, LoadAware),
    SCORE_ENTRY(least_allocated, Allocation),
    SCORE_ENTRY(most_allocated, Allocation),
    SCORE_ENTRY(balanced_allocation, Allocation),
    SCORE_ENTRY(requested_to_capacity_ratio, Allocation),
    SCORE_ENTRY(machine_preference, None),
    SCORE_ENTRY(taint_preference, None),
    SCORE_ENTRY(data_locality, None),
    SCORE_ENTRY(spread, None),
    SCORE_ENTRY(apart, None),
    SCORE_ENTRY(failed_starts, None),
    SCORE_ENTRY(expression, None),
    {NULL, NULL, NULL, 0, NULL},
};

#ifndef SOURCES
#define SOURCES ""
#endif

/* The digest of the sources that the library was built from. */
const char *sources(void) { return SOURCES; }

/* Prepare the tables of numbers; put the sizes of the structs into sizes, in the order of `layout.STRUCTS`. */
void begin(int64_t *sizes) {
    make_excess_table();
    const size_t all[] = {sizeof(Row),    sizeof(More), sizeof(ByClass), sizeof(Instance), sizeof(Query),
                          sizeof(Making), sizeof(Load), sizeof(Use),     sizeof(Patches),  sizeof(Model)};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) sizes[k] = (int64_t)all[k];
}

/* Return the number of a filter or a score by its name, -1 where there is none; put the size of its settings into size. */
int64_t plugin_number(const char *name, int64_t is_score, int64_t *size) {
    for (int64_t k = 0; (is_score ? SCORES[k].name : FILTERS[k].name) != NULL; k++) {
        const char *here = is_score ? SCORES[k].name : FILTERS[k].name;
        size_t at = 0;
        while (here[at] && here[at] == name[at]) at++;
        if (here[at] || name[at]) continue;
        *size = (int64_t)(is_score ? SCORES[k].settings : FILTERS[k].settings);
        return k;
    }
    return -1;
}

/* Make the rows of some machines: of the instances live[ends[k] .. ends[k + 1]] and the leavers left[...], at places.
   load: null, or the sums of these rows, which they are in already. */
void make_rows(const Making *m, int64_t count, const int64_t *machines, const int64_t *places,
               const Instance *const *live, const int64_t *ends, const Instance *const *left, const int64_t *gone_ends,
               Row *rows, More *more, ByClass *by, Load *load) {
    for (int64_t k = 0; k < count; k++) {
        There there = {live + ends[k], left + gone_ends[k], ends[k + 1] - ends[k], gone_ends[k + 1] - gone_ends[k]};
        int64_t at = places[k];
        if (load) add_load(load, rows + at, -1.0);
        make_row(m, machines[k], &there, rows + at, more + at, by ? by + at : NULL);
        if (load) add_load(load, rows + at, 1.0);
    }
}

/* Put into load the sums of all rows. */
void add_up(int64_t machines, const Row *rows, Load *load) {
    *load = (Load){{0}, {0}};
    for (int64_t i = 0; i < machines; i++) add_load(load, rows + i, 1.0);
}

/* Put into queries what requests ask for; `Machines.queries` adds when and where. */
void ask(const Making *m, int64_t count, const Instance *asked, Query *queries) {
    for (int64_t k = 0; k < count; k++) {
        const Instance *one = asked + k;
        Query *q = queries + k;
        expected_of(&m->estimate, one, q->expected);
        q->maxmemory = one->maxmemory;
        q->priority_class = one->priority_class;
        q->requests_alone = (uint8_t)m->requests_alone;
        for (int r = 0; r < R; r++) {
            q->amounts[r] = one->amounts[r];
            q->limits[r] = fmax(one->limits[r], one->amounts[r]);
            q->deviation[r] = NAN;
            q->missing[r] = one->missing[r];
            q->declared[r] = !isnan(one->expected[r]);
        }
    }
}

/* Put into out [count][R] what some instances are expected to use. */
void expected(const Making *m, int64_t count, const Instance *instances, double *out) {
    for (int64_t k = 0; k < count; k++) expected_of(&m->estimate, instances + k, out + k * R);
}
