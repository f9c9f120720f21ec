typedef struct {
    double thresholds[R];
    int32_t days, day[DAYS]; /* how many, and which in their order */
} DailyPeak;

static inline int64_t daily_peak(const Row *m, const More *c, const Query *q, const DailyPeak *p, const double *x,
                                 double *said) {
    int64_t found = 0;
    for (int d = 0; d < p->days && (said || !found); d++) {
        const double *peak = m->peak[p->day[d]];
        int over = 0;
        for (int r = 0; r < R; r++) {
            if (!(p->thresholds[r] > 0 || said)) continue;
            double limit = p->thresholds[r] * m->allocatable[r];
            over |= (p->thresholds[r] > 0) & (limit * (1 + ROUNDING) - peak[r] < q->expected[r]);
            if (!said) continue;
            said[d * R + r] = peak[r] + q->expected[r];
            said[DAYS * R + r] = limit;
        }
        if (over && !found) found = d + 1;
    }
    return found;
}
FILTER(daily_peak, DailyPeak)
