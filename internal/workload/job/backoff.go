package job

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// with returns a Past that also takes into account finished pods that are not in Seen yet. A success resets
// the failures up to it. tracked are the pods that later plans will get again.
func (p Past) with(succeeded, failed, tracked []*corev1.Pod) Past {
	isNew := func(pods []*corev1.Pod) (unseen []*corev1.Pod) {
		for _, pod := range pods {
			if !p.Seen[pod.UID] {
				unseen = append(unseen, pod)
			}
		}
		return unseen
	}
	succeeded, failed = isNew(succeeded), isNew(failed)
	var success time.Time
	for _, pod := range succeeded {
		if t := finishedAt(pod); t.After(success) {
			success = t
		}
	}
	if len(succeeded) > 0 && !p.LastFailure.After(success) {
		p.Failures, p.LastFailure = 0, time.Time{}
	}
	for _, pod := range failed {
		t := finishedAt(pod)
		if len(succeeded) > 0 && !t.After(success) {
			continue
		}
		p.Failures++
		if t.After(p.LastFailure) {
			p.LastFailure = t
		}
	}
	p.Seeded, p.Seen = true, nil
	for _, pod := range tracked {
		if p.Seen == nil {
			p.Seen = make(map[types.UID]bool, len(tracked))
		}
		p.Seen[pod.UID] = true
	}
	return p
}

// wait returns the pause after the last of n failures: base after the first, doubled with each
// further one, at most most.
func (l Limits) wait(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	d := l.Backoff
	for i := 1; i < n && d < l.BackoffMax; i++ {
		d *= 2
	}
	return min(d, l.BackoffMax)
}

// remaining returns how much of the wait after n failures is left.
func (l Limits) remaining(now time.Time, n int, last time.Time) time.Duration {
	if n <= 0 {
		return 0
	}
	return max(0, last.Add(l.wait(n)).Sub(now))
}
