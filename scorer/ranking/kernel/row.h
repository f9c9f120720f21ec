/* What a decision reads: one row a machine, the request, and what rows are made from.
   `layout.py` has the same structs as numpy types; both sizes are compared when the library is loaded. NaN: unknown. */
#ifndef ROW_H
#define ROW_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifndef R
#define R 4 /* resources, in the order of schemas/resources.py */
#endif
#define CPU 0
#define MEMORY 1
#define DAYS 2       /* today, yesterday */
#define STATISTICS 5 /* p50, p90, p95, p99, max */
#define MAX 4        /* the place of max among them */
#define CLASSES 4    /* prod, mid, batch, free */
#define PROD 0
#define PLANES 5       /* of the sums by class: asked, measured, unmeasured, counted, larger */
#define ROUNDING 1e-12 /* so that sums of floats meet a limit that they equal */

/* What every filter or score of an ordinary request reads of a machine. */
typedef struct {
    double allocatable[R];
    double inverse[R]; /* 1 / allocatable */
    double allocated[R];
    double mean[R];        /* usage, with credits and debits */
    double utilization[R]; /* mean / allocatable */
    double deviation[R];   /* std / allocatable */
    double peak[DAYS][R];  /* of each day, with what started since */
    double seen_at;        /* event time of the newest sample, -infinity without any */
    double interval_s;
    double coverage;
    double available; /* share of the memory that is left, over the shortest window */
    double maxmemory; /* sum of the instances' */
    int64_t count;    /* instances */
    int64_t number;   /* of the row */
    uint8_t has_data, has_load, warming, cordon;
    uint8_t own_ratio, own_thresholds, own_percentiles, own_prod; /* whether an operator gives them */
    uint8_t known[R];                                             /* whether allocatable and measured usage are known */
} Row;

/* What explanations, and filters and scores with other settings, read besides. */
typedef struct {
    double capacity[R];
    double measured[R]; /* the window's mean */
    double std[R];
    double credit[R];
    double remaining[R]; /* the mean with debits and without credits */
    double estimated[R]; /* sum of what the instances are expected to use */
    double limited[R];   /* sum of the limits, each at least its request */
    double missing[R];   /* instances that give no amount */
    double measured_peak[DAYS][R];
    double peak_sum[DAYS][R]; /* the measured peak and all that started since */
    double statistics[STATISTICS][R];
    double prod[R];   /* mean usage by class prod */
    double system[R]; /* usage of no instance */
    double ratio[R], thresholds[R], percentiles[R], prod_thresholds[R];
    double power[3];
    double window_s;
    int64_t has_report;
} More;

/* What the instances of each class ask for and use, and what the last report still has of lower classes that ended. */
typedef struct {
    double sums[PLANES][CLASSES][R];
    double ended_lower[R];
    double reported[R];     /* of system and instances, by the last report */
    double usage_peak[R];   /* the usage that is rarely exceeded */
    double predicted[2][R]; /* peaks of prod and of the system */
} ByClass;

/* An instance of the ledger, or the one that is asked for: that one has not started. */
typedef struct {
    double amounts[R];  /* 0 where none is given */
    double limits[R];   /* NaN where none is declared */
    double expected[R]; /* NaN where the request does not say it */
    double started_at;  /* 0 until confirmed started */
    double reserved_at;
    double ended_at;
    double maxmemory;
    int64_t pair; /* digest of machine and id */
    int64_t kind;
    int64_t machine; /* its number in the view, -1 in an empty slot */
    int8_t priority_class;
    uint8_t keeps;
    uint8_t missing[R];
} Instance;

/* The utilizations that are known, added up over all machines: kept with the rows, so that no decision reads all. */
typedef struct {
    double sum[R], count[R];
} Load;

/* The request, under one load model. */
typedef struct {
    double amounts[R], expected[R], limits[R];
    double deviation[R];                  /* of its usage, as learned; NaN where it is not */
    double fleet_mean[R], fleet_share[R]; /* of the utilizations known: the mean, and one by their number */
    double maxmemory, now;
    int64_t machine; /* the row of the machine that it names, -1 without */
    int32_t priority_class;
    uint8_t last_known, requests_alone;
    uint8_t missing[R], declared[R]; /* whether it gives no amount, and whether it says what it will use */
} Query;

/* Add the utilizations of a machine, or take them away. */
static inline void add_load(Load *load, const Row *m, double times) {
    for (int r = 0; r < R; r++) {
        if (isnan(m->utilization[r])) continue;
        load->sum[r] += times * m->utilization[r];
        load->count[r] += times;
    }
}

/* Maximum and minimum of numbers that are not NaN: the library's mind NaN and cost three times as much. */
static inline double more_of(double a, double b) { return a > b ? a : b; }
static inline double less_of(double a, double b) { return a < b ? a : b; }
static inline double clip(double value, double low, double high) { return less_of(more_of(value, low), high); }
/* The same where either may be NaN: then the result is NaN. */
static inline double least(double a, double b) { return isnan(a) || a < b ? a : b; }
static inline double largest(double a, double b) { return isnan(a) || a > b ? a : b; }
static inline double or_zero(double value) { return isnan(value) ? 0.0 : value; }

/* Round halves away from zero, as Go's math.Round; a fraction within 1e-9 below a half is a half. */
static inline double round_half_away(double value) { return copysign(floor(fabs(value) + (0.5 + 1e-9)), value); }

#endif
