typedef struct {
    double age_s_max, intervals_max;
} Fresh;

enum { FRESH_WITHOUT_DATA = 1, FRESH_STALE };

static inline int64_t fresh(const Row *m, const More *c, const Query *q, const Fresh *p, const double *x,
                            double *said) {
    if (said) {
        said[0] = q->now - m->seen_at;
        said[1] = fmax(p->age_s_max, p->intervals_max * m->interval_s);
    }
    if (!m->has_data) return FRESH_WITHOUT_DATA;
    if (q->last_known || q->now <= m->seen_at + p->age_s_max) return 0;
    return q->now <= m->seen_at + p->intervals_max * m->interval_s ? 0 : FRESH_STALE;
}
FILTER(fresh, Fresh)
