package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
)

// matchSuccess returns the message of the first rule of the success policy that the succeeded indexes satisfy,
// "" if none does (KEP-3998).
func matchSuccess(j *batchv1.Job, succeeded Indexes) string {
	if j.Spec.SuccessPolicy == nil || len(succeeded) == 0 {
		return ""
	}
	for i := range j.Spec.SuccessPolicy.Rules {
		if satisfies(&j.Spec.SuccessPolicy.Rules[i], succeeded, int(*j.Spec.Completions)) {
			return fmt.Sprintf("Matched rules at index %d", i)
		}
	}
	return ""
}

// satisfies reports whether enough of the rule's indexes have succeeded: succeededCount of them, or all if it
// is not set; without succeededIndexes, succeededCount of any.
func satisfies(rule *batchv1.SuccessPolicyRule, succeeded Indexes, completions int) bool {
	if rule.SucceededIndexes == nil {
		return rule.SucceededCount != nil && succeeded.Len() >= int(*rule.SucceededCount)
	}
	// The API rejects a rule that cannot be parsed.
	named, _ := ParseIndexes(*rule.SucceededIndexes, completions)
	if len(named) == 0 {
		return false
	}
	n := named.Common(succeeded)
	return n == named.Len() || rule.SucceededCount != nil && n >= int(*rule.SucceededCount)
}
