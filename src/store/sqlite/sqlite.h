/*
 * sqlite.h - what the files of this folder share: the open database and its statements.
 *
 * Memory and threads: as aware/store.h.
 */
#ifndef AW_STORE_SQLITE_SQLITE_H
#define AW_STORE_SQLITE_SQLITE_H

#include <sqlite3.h>

#include "store/backend.h"
#include "store/sqlite/lock.h"

/* Columns of a step, in the order in which they are bound and read. */
/* clang-format off */
#define AW__STEP_COLUMNS                                                                           \
    "at_us, stage, actor, model, obs, next_obs, action, shadow, reward, terminated, truncated, "   \
    "arrivals_per_s, latency_us_p99, slo_preservation, cpu_utilisation, memory_utilisation, "      \
    "cost, paper_reward, violated" AW__AMOUNTS
#define AW__AMOUNTS "@" /* stands for the columns of resources, each after a comma */
#define AW__AMOUNT_VALUE(...) ", ?"
#define AW__EPISODE_COLUMNS "episode, steps, reward_sum, violations, first_us, last_us, ended"

/*     id                text  */
#define AW__STATEMENT_MAP(X)                                                                       \
    X(BEGIN,             "BEGIN IMMEDIATE")                                                        \
    X(COMMIT,            "COMMIT")                                                                 \
    X(ROLLBACK,          "ROLLBACK")                                                               \
    X(WORKLOAD_ID,       "SELECT id FROM workload WHERE name = ?1")                                \
    X(WORKLOAD_NEW,      "INSERT INTO workload(name) VALUES (?1)")                                 \
    X(STEP_NEW,          "INSERT INTO step(workload, episode, step, " AW__STEP_COLUMNS ") VALUES " \
                         "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"       \
                         AW_RESOURCE_MAP(AW__AMOUNT_VALUE) ") ON CONFLICT DO NOTHING")             \
    X(STEP_GET,          "SELECT ?4, episode, step, " AW__STEP_COLUMNS " FROM step "               \
                         "WHERE workload = ?1 AND episode = ?2 AND step = ?3")                     \
    X(STEP_AT,           "SELECT ?4, episode, step, " AW__STEP_COLUMNS " FROM step "               \
                         "WHERE workload = ?1 AND episode = ?2 ORDER BY step LIMIT 1 OFFSET ?3")   \
    X(STEP_LAST,         "SELECT episode, step, terminated OR truncated FROM step "                \
                         "WHERE workload = ?1 ORDER BY episode DESC, step DESC LIMIT 1")           \
    X(SCAN,              "SELECT ?1, episode, step, " AW__STEP_COLUMNS " FROM step "               \
                         "WHERE workload = ?2 AND (episode, step) >= (?3, ?4) "                    \
                         "AND (episode, step) <= (?5, ?6) AND at_us >= ?7 AND at_us <= ?8 "        \
                         "ORDER BY episode, step")                                                 \
    X(EPISODE_ADD,       "INSERT INTO episode(workload, " AW__EPISODE_COLUMNS ") "                 \
                         "VALUES (?1, ?2, 1, ?3, ?4, ?5, ?5, ?6) ON CONFLICT DO UPDATE SET " \
                         "steps = steps + 1, reward_sum = reward_sum + excluded.reward_sum, "      \
                         "violations = violations + excluded.violations, "                         \
                         "first_us = min(first_us, excluded.first_us), "                           \
                         "last_us = max(last_us, excluded.last_us), "                              \
                         "ended = ended | excluded.ended")                                         \
    X(EPISODES_NEWEST,   "SELECT " AW__EPISODE_COLUMNS " FROM episode "                            \
                         "WHERE workload = ?1 AND ended ORDER BY episode DESC LIMIT ?2")           \
    X(EPISODES_BEST,     "SELECT " AW__EPISODE_COLUMNS " FROM episode WHERE workload = ?1 "        \
                         "AND ended ORDER BY reward_sum DESC, episode DESC LIMIT ?2")              \
    X(EPISODE_STEPS,     "SELECT episode, steps FROM episode WHERE workload = ?1 "                 \
                         "ORDER BY episode")                                                       \
    X(COUNTS_ALL,        "SELECT (SELECT count(*) FROM workload), count(*), "                      \
                         "coalesce(sum(steps), 0) FROM episode")                                   \
    X(COUNTS,            "SELECT count(*) > 0, count(*), coalesce(sum(steps), 0) FROM episode "    \
                         "WHERE workload = ?1")                                                    \
    X(WORKLOADS,         "SELECT name, id, "                                                       \
                         "(SELECT count(*) FROM episode e WHERE e.workload = w.id), "              \
                         "(SELECT sum(steps) FROM episode e WHERE e.workload = w.id) "             \
                         "FROM workload w ORDER BY name")                                          \
    X(DROP_STEPS,        "DELETE FROM step WHERE workload = ?1 AND episode = ?2")                  \
    X(DROP_EPISODE,      "DELETE FROM episode WHERE workload = ?1 AND episode = ?2")               \
    X(VICTIMS_TIME,      AW__VICTIMS "WHERE e.episode < l.latest AND e.last_us < ?1 LIMIT ?2")     \
    X(VICTIMS_COUNT,     "SELECT workload, episode, steps FROM (SELECT *, row_number() OVER "      \
                         "(PARTITION BY workload ORDER BY episode DESC) AS age FROM episode) "     \
                         "WHERE age > ?1 LIMIT ?2")                                                \
    X(VICTIMS_OLDEST,    AW__VICTIMS "JOIN workload w ON w.id = e.workload "                       \
                         "WHERE e.episode < l.latest ORDER BY e.first_us, w.name, e.episode "      \
                         "LIMIT ?2")
#define AW__VICTIMS                                                                                \
    "SELECT e.workload, e.episode, e.steps FROM episode e JOIN (SELECT workload, max(episode) AS " \
    "latest FROM episode GROUP BY workload) l ON l.workload = e.workload "
/* clang-format on */

enum aw__statement {
#define X(id, text) AW__##id,
    AW__STATEMENT_MAP(X)
#undef X
        AW__STATEMENT_COUNT
};

struct aw__sqlite {
    const struct aw_alloc *alloc;
    sqlite3 *db;
    sqlite3_stmt *statement[AW__STATEMENT_COUNT];
    struct aw__lock lock; /* writers alone */
    bool grouped;
    bool group_lost; /* a failure in the group has rolled it back */
    char path[AW_FILE_PATH_MAX];
};

/* Opens, creates or refuses the file and prepares the statements. On failure close `s`. */
AW_NODISCARD enum aw_err aw__sqlite_open(struct aw__sqlite *s, const char *path,
                                         const struct aw_store_options *options,
                                         struct aw_diag *diag);
/* What SQLite said, for people: the file, what was tried and why it failed. */
enum aw_err aw__sqlite_fail(struct aw__sqlite *s, const char *doing, struct aw_diag *diag);

#endif
