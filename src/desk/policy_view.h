/*
 * policy_view.h - a workload's policies, from what was kept of its decisions.
 *
 * A running daemon and the state of a stopped one are read the same way, from two things: the
 * account of the latest decision, and the moment of the latest one that is in the journal. Policies
 * change only with decisions that are kept, so the texts are those of now; ids say so.
 *
 * Memory:  texts are malloc'd: aw_policy_texts_deinit. JSON is jansson's.
 * Threads: none of its own. Nothing here touches a pilot that is at work.
 */
#ifndef AW_DESK_POLICY_VIEW_H
#define AW_DESK_POLICY_VIEW_H

#include <jansson.h>

#include "desk/journal.h"

/* Texts of files, as aw_pilot_propose takes them. */
struct aw_policy_texts {
    char *in_force; /* NULL: there was none yet */
    char *trial;    /* NULL: none was watched or tried */
};
/* AW_ERR_NODATA: the moment was not kept. AW_ERR_FORMAT: it is of another version. */
AW_NODISCARD enum aw_err aw_policy_texts_read(const struct aw_journal_entry *entry,
                                              struct aw_policy_texts *ret, struct aw_diag *diag);
void aw_policy_texts_deinit(struct aw_policy_texts *texts); /* a zeroed one is a no-op */

/* One of them: the policy in force, or the one on trial; borrowed. `account` says which there are.
 * AW_ERR_NODATA: no such policy. AW_ERR_CONFLICT: the texts are older than the account. */
AW_NODISCARD enum aw_err aw_policy_pick(const json_t *account, const struct aw_policy_texts *texts,
                                        bool trial, const char **ret_text, struct aw_diag *diag);

/* {"workload","at","stage","actor","acting","good","trial","canary"}: policies are
 * {"id","checksum"}, the checksum null where the text is not known; null: there is none. NULL: no
 * memory. */
json_t *aw_policy_view(const json_t *account, const struct aw_policy_texts *texts);

#endif
