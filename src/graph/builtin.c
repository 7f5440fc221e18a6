/*
 * builtin.c - applications of the shapes that FIRM was tried on (thesis, 3.3.1): DeathStarBench's
 * Social Network, Media and Hotel, and TrainTicket: 38, 42, 15 and 42 services (36, 38, 15, 41).
 *
 * Who calls whom is as their sources and public traces have it, shortened; what a visit costs is
 * ours, so that a search of TrainTicket takes about 90 ms, and requests of the others 3 to 20 ms.
 * SLOs are about twice the 99th percentile of a quiet run.
 */
#include <string.h>

#include "graph/app.h"

struct row {
    const char *service, *op;
    enum aw_graph_class sort; /* of the service: its first row counts */
    double cpu_ms;
    const char *program;
};
struct type_row {
    const char *name, *entry;
    double share, slo_ms;
};
struct builtin {
    const char *name;
    double rate;
    const struct row *rows; /* ends with a NULL service */
    const struct type_row *types;
};

#define LOGIC AW_GRAPH_LOGIC
#define WEB   AW_GRAPH_WEB
#define CACHE AW_GRAPH_CACHE
#define STORE AW_GRAPH_STORE

static const struct row social[] = {
    {"nginx", "compose", WEB, 0.5, "par(unique-id, media, user, text), compose-post"},
    {"nginx", "home", WEB, 0.4, "home-timeline"},
    {"nginx", "profile", WEB, 0.4, "user-timeline"},
    {"nginx", "follow", WEB, 0.4, "social-graph.write"},
    {"unique-id", "", LOGIC, 0.2, ""},
    {"media", "", LOGIC, 0.5, "0.4?media-cache, 0.2?media-db"},
    {"media-cache", "", CACHE, 0.15, ""},
    {"media-db", "", STORE, 0.6, ""},
    {"media-frontend", "", WEB, 0.8, "media"},
    {"user", "", LOGIC, 0.5, "user-cache, 0.3?user-db"},
    {"user-cache", "", CACHE, 0.15, ""},
    {"user-db", "", STORE, 0.7, ""},
    {"text", "", LOGIC, 1.0, "par(url-shorten, user-mention), text-filter"},
    {"text-filter", "", LOGIC, 1.4, ""},
    {"url-shorten", "", LOGIC, 0.4, "url-cache, 0.5?url-db"},
    {"url-cache", "", CACHE, 0.15, ""},
    {"url-db", "", STORE, 0.6, ""},
    {"user-mention", "", LOGIC, 0.4, "mention-cache, 0.3?user-db"},
    {"mention-cache", "", CACHE, 0.15, ""},
    {"compose-post", "", LOGIC, 1.0,
     "par(post-storage.write, user-timeline.write), compose-cache, async(write-home-timeline)"},
    {"compose-cache", "", CACHE, 0.2, ""},
    {"write-home-timeline", "", LOGIC, 0.8, "timeline-queue, social-graph, home-cache"},
    {"timeline-queue", "", LOGIC, 0.3, ""},
    {"home-timeline", "", LOGIC, 0.7, "home-cache, post-storage"},
    {"home-cache", "", CACHE, 0.2, ""},
    {"user-timeline", "", LOGIC, 0.7, "timeline-cache, 0.3?timeline-db, post-storage"},
    {"user-timeline", "write", LOGIC, 0.5, "timeline-cache, timeline-db"},
    {"timeline-cache", "", CACHE, 0.2, ""},
    {"timeline-db", "", STORE, 0.8, ""},
    {"post-storage", "", LOGIC, 0.8, "post-cache, 0.4?post-db"},
    {"post-storage", "write", LOGIC, 0.6, "post-db"},
    {"post-cache", "", CACHE, 0.25, ""},
    {"post-db", "", STORE, 0.9, ""},
    {"social-graph", "", LOGIC, 0.5, "graph-cache, 0.3?graph-db"},
    {"social-graph", "write", LOGIC, 0.6, "par(graph-cache, graph-db), ranker"},
    {"graph-cache", "", CACHE, 0.2, ""},
    {"graph-db", "", STORE, 0.8, ""},
    {"ranker", "", LOGIC, 1.1, "ads, search-index"},
    {"ads", "", LOGIC, 0.5, ""},
    {"search-index", "", LOGIC, 0.6, "index0, index1"},
    {"index0", "", STORE, 0.5, ""},
    {"index1", "", STORE, 0.5, ""},
    {"nginx", "login", WEB, 0.4, "par(media-frontend, user), block-list, 0.5?read-post"},
    {"block-list", "", LOGIC, 0.3, "0.5?graph-cache"},
    {"read-post", "", LOGIC, 0.5, "post-storage"},
    {0},
};
static const struct type_row social_types[] = {
    {"compose", "nginx.compose", 0.3, 48}, {"home", "nginx.home", 0.3, 25},
    {"profile", "nginx.profile", 0.2, 28}, {"follow", "nginx.follow", 0.1, 35},
    {"login", "nginx.login", 0.1, 37},     {0},
};

static const struct row media[] = {
    {"nginx", "review", WEB, 0.5,
     "par(unique-id, seq(movie-id, rating), text, user), compose-review"},
    {"nginx", "page", WEB, 0.6, "page"},
    {"nginx", "stream", WEB, 0.6, "user, rent, par(video, caption)"},
    {"unique-id", "", LOGIC, 0.2, ""},
    {"movie-id", "", LOGIC, 0.4, "movie-id-cache, 0.4?movie-id-db"},
    {"movie-id-cache", "", CACHE, 0.15, ""},
    {"movie-id-db", "", STORE, 0.7, ""},
    {"rating", "", LOGIC, 0.4, "rating-cache"},
    {"rating-cache", "", CACHE, 0.15, ""},
    {"text", "", LOGIC, 1.2, "filter"},
    {"filter", "", LOGIC, 0.8, ""},
    {"user", "", LOGIC, 0.5, "user-cache, 0.3?user-db"},
    {"user-cache", "", CACHE, 0.15, ""},
    {"user-db", "", STORE, 0.7, ""},
    {"compose-review", "", LOGIC, 0.9,
     "compose-cache, par(review-storage.write, user-review, movie-review), async(notify)"},
    {"compose-cache", "", CACHE, 0.2, ""},
    {"review-storage", "", LOGIC, 0.6, "review-cache, 0.4?review-db"},
    {"review-storage", "write", LOGIC, 0.6, "review-db"},
    {"review-cache", "", CACHE, 0.2, ""},
    {"review-db", "", STORE, 0.9, ""},
    {"user-review", "", LOGIC, 0.5, "user-review-db"},
    {"user-review-db", "", STORE, 0.8, ""},
    {"movie-review", "", LOGIC, 0.5, "movie-review-cache, 0.5?movie-review-db"},
    {"movie-review-cache", "", CACHE, 0.2, ""},
    {"movie-review-db", "", STORE, 0.8, ""},
    {"notify", "", LOGIC, 0.4, "queue"},
    {"queue", "", LOGIC, 0.3, ""},
    {"page", "", LOGIC, 1.0,
     "par(movie-info, cast-info, plot, seq(movie-review, review-storage)), recommend"},
    {"movie-info", "", LOGIC, 0.5, "info-cache, 0.3?info-db"},
    {"info-cache", "", CACHE, 0.15, ""},
    {"info-db", "", STORE, 0.7, ""},
    {"cast-info", "", LOGIC, 0.5, "cast-cache, 0.3?cast-db"},
    {"cast-cache", "", CACHE, 0.15, ""},
    {"cast-db", "", STORE, 0.7, ""},
    {"plot", "", LOGIC, 0.4, "0.5?plot-db"},
    {"plot-db", "", STORE, 0.6, ""},
    {"recommend", "", LOGIC, 1.2, "photos"},
    {"photos", "", WEB, 0.5, "photo-files"},
    {"photo-files", "", STORE, 0.4, ""},
    {"rent", "", LOGIC, 0.6, "payment, rent-db"},
    {"payment", "", LOGIC, 0.8, ""},
    {"rent-db", "", STORE, 0.7, ""},
    {"video", "", WEB, 0.8, "video-files"},
    {"video-files", "", STORE, 0.8, ""},
    {"caption", "", LOGIC, 0.4, ""},
    {0},
};
static const struct type_row media_types[] = {
    {"review", "nginx.review", 0.4, 40},
    {"page", "nginx.page", 0.4, 45},
    {"stream", "nginx.stream", 0.2, 38},
    {0},
};

static const struct row hotel[] = {
    {"frontend", "search", WEB, 0.6, "search, reservation, profile"},
    {"frontend", "recommend", WEB, 0.5, "recommendation, profile"},
    {"frontend", "reserve", WEB, 0.5, "user, reservation.write"},
    {"frontend", "login", WEB, 0.4, "user"},
    {"search", "", LOGIC, 0.8, "par(geo, rate)"},
    {"geo", "", LOGIC, 0.9, "0.5?geo-db"},
    {"geo-db", "", STORE, 0.7, ""},
    {"rate", "", LOGIC, 0.7, "rate-cache, 0.4?rate-db"},
    {"rate-cache", "", CACHE, 0.2, ""},
    {"rate-db", "", STORE, 0.8, ""},
    {"profile", "", LOGIC, 0.7, "profile-cache, 0.4?profile-db"},
    {"profile-cache", "", CACHE, 0.2, ""},
    {"profile-db", "", STORE, 0.8, ""},
    {"reservation", "", LOGIC, 0.7, "reservation-cache, 0.4?reservation-db"},
    {"reservation", "write", LOGIC, 0.8, "reservation-db, reservation-cache"},
    {"reservation-cache", "", CACHE, 0.2, ""},
    {"reservation-db", "", STORE, 0.9, ""},
    {"recommendation", "", LOGIC, 1.4, ""},
    {"user", "", LOGIC, 0.6, ""},
    {0},
};
static const struct type_row hotel_types[] = {
    {"search", "frontend.search", 0.6, 43},
    {"recommend", "frontend.recommend", 0.2, 25},
    {"reserve", "frontend.reserve", 0.1, 23},
    {"login", "frontend.login", 0.1, 10},
    {0},
};

static const struct row train[] = {
    {"gateway", "left", WEB, 0.8, "travel"},
    {"gateway", "travel2", WEB, 0.8, "travel2"},
    {"gateway", "preserve", WEB, 0.8, "preserve"},
    {"gateway", "orders", WEB, 0.8, "order.query"},
    {"gateway", "pay", WEB, 0.8, "inside-payment"},
    {"gateway", "login", WEB, 0.8, "verification, auth, user"},
    {"travel", "", LOGIC, 2.5, "travel-db, 2*basic, 2*seat"},
    {"travel-db", "", STORE, 1.2, ""},
    {"travel2", "", LOGIC, 2.0, "travel2-db, basic, seat"},
    {"travel2-db", "", STORE, 1.2, ""},
    {"basic", "", LOGIC, 2.0, "2*station, train, route, price"},
    {"station", "", LOGIC, 1.2, "station-db"},
    {"station-db", "", STORE, 0.8, ""},
    {"train", "", LOGIC, 1.0, "train-db"},
    {"train-db", "", STORE, 0.8, ""},
    {"route", "", LOGIC, 1.5, "3*route-db"},
    {"route-db", "", STORE, 0.8, ""},
    {"price", "", LOGIC, 1.2, "price-db"},
    {"price-db", "", STORE, 0.8, ""},
    {"seat", "", LOGIC, 1.8, "order, config"},
    {"order", "", LOGIC, 1.5, "order-db"},
    {"order", "query", LOGIC, 2.0, "order-db, 3*station, 0.5?auth"},
    {"order", "write", LOGIC, 1.5, "2*order-db"},
    {"order-db", "", STORE, 1.2, ""},
    {"config", "", LOGIC, 0.8, "config-db"},
    {"config-db", "", STORE, 0.6, ""},
    {"preserve", "", LOGIC, 2.5,
     "security, contacts, travel2, par(assurance, food, consign), order.write, user, "
     "async(notification)"},
    {"security", "", LOGIC, 1.2, "security-db, order"},
    {"security-db", "", STORE, 0.7, ""},
    {"contacts", "", LOGIC, 1.0, "contacts-db"},
    {"contacts-db", "", STORE, 0.8, ""},
    {"assurance", "", LOGIC, 1.0, "assurance-db"},
    {"assurance-db", "", STORE, 0.7, ""},
    {"food", "", LOGIC, 1.3, "food-map"},
    {"food-map", "", LOGIC, 0.9, "0.5?food-map-db"},
    {"food-map-db", "", STORE, 0.7, ""},
    {"consign", "", LOGIC, 1.0, "consign-price"},
    {"consign-price", "", LOGIC, 0.6, "consign-price-db"},
    {"consign-price-db", "", STORE, 0.6, ""},
    {"user", "", LOGIC, 1.0, "user-db"},
    {"user-db", "", STORE, 0.7, ""},
    {"notification", "", LOGIC, 1.2, "mail"},
    {"mail", "", LOGIC, 1.0, ""},
    {"inside-payment", "", LOGIC, 1.6, "order, payment, payment-db"},
    {"payment", "", LOGIC, 1.2, "payment-db"},
    {"payment-db", "", STORE, 0.9, ""},
    {"verification", "", LOGIC, 0.6, ""},
    {"auth", "", LOGIC, 2.2, "auth-db"},
    {"auth-db", "", STORE, 0.7, ""},
    {0},
};
static const struct type_row train_types[] = {
    {"left", "gateway.left", 0.4, 200},
    {"travel2", "gateway.travel2", 0.15, 112},
    {"preserve", "gateway.preserve", 0.15, 186},
    {"orders", "gateway.orders", 0.1, 60},
    {"pay", "gateway.pay", 0.1, 41},
    {"login", "gateway.login", 0.1, 33},
    {0},
};

static const struct builtin builtins[] = {
    {"social-network", 300, social, social_types},
    {"media", 300, media, media_types},
    {"hotel", 300, hotel, hotel_types},
    {"train-ticket", 120, train, train_types},
};
#define BUILTINS (sizeof builtins / sizeof *builtins)

const char *const aw_graph_builtin_names[] = {"social-network", "media", "hotel", "train-ticket",
                                              NULL};

static enum aw_err make(const struct builtin *builtin, struct aw_graph_app *app,
                        struct aw_diag *diag)
{
    aw_graph_app_init(app, builtin->name, builtin->rate);
    for (const struct row *row = builtin->rows; row->service; row++) {
        uint32_t service = aw_graph_service_find(app, row->service);
        enum aw_err err = AW_OK;
        if (service == AW_GRAPH_NONE)
            err = aw_graph_app_service(app, row->service, row->sort, &service, diag);
        if (!err)
            err = aw_graph_app_op(app, service, row->op, row->cpu_ms, row->program, diag);
        if (err)
            return err;
    }
    for (const struct type_row *type = builtin->types; type->name; type++) {
        const enum aw_err err =
            aw_graph_app_type(app, type->name, type->entry, type->share, type->slo_ms, diag);
        if (err)
            return err;
    }
    return aw_graph_app_finish(app, diag);
}

enum aw_err aw_graph_builtin(const char *name, struct aw_graph_app *ret, struct aw_diag *diag)
{
    for (size_t i = 0; i < BUILTINS; i++)
        if (!strcmp(name, builtins[i].name))
            return make(&builtins[i], ret, diag);
    return aw_fail(diag, AW_ERR_NOTFOUND,
                   "no application is called \"%.60s\"; there are social-network, media, hotel and "
                   "train-ticket",
                   name);
}
