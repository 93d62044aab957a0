package job

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Names of pods are derived from the Job's UID, the slot and the attempt: a controller that decides
// the same thing twice (on a stale cache, after a lost answer or after a restart) uses the same name
// twice, and the API rejects the second pod.
//
// Slots of an Indexed Job are its indexes; an attempt is the lowest whose name no pod has. Slots of another
// Job are numbers: the first ones that no pod uses, starting at the number of pods that have finished and are
// recorded or counted. So a pod whose create is still in flight keeps its number, and numbers that were used
// before pods finished are not used again.

const (
	suffixLength = 10
	// letters contain neither vowels nor digits that look like letters, as in the suffixes that the API
	// generates.
	letters = "bcdfghjklmnpqrstvwxz2456789"
	// longestName leaves the name of a pod a DNS label, so that it can be a hostname.
	longestName = 63
)

func podName(j *batchv1.Job, index, slot, attempt int) string {
	h := fnv.New64a()
	key := make([]byte, 0, 96)
	key = append(append(key, j.UID...), '/')
	key = strconv.AppendInt(key, int64(slot), 10)
	key = append(key, '/')
	key = strconv.AppendInt(key, int64(attempt), 10)
	_, _ = h.Write(key)
	n := mixed(h.Sum64())
	var suffix [suffixLength]byte
	for i := range suffix {
		suffix[i] = letters[n%uint64(len(letters))]
		n /= uint64(len(letters))
	}
	middle := "-"
	if index != noIndex {
		middle = "-" + strconv.Itoa(index) + "-"
	}
	prefix := j.Name
	if most := longestName - suffixLength - len(middle); len(prefix) > most {
		prefix = strings.TrimRight(prefix[:most], "-.")
	}
	return prefix + middle + string(suffix[:])
}

// mixed spreads the differences of similar keys, which FNV leaves in the low bits, over all bits (the
// finalizer of MurmurHash3).
func mixed(n uint64) uint64 {
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	n = (n ^ n>>33) * 0xc4ceb9fe1a85ec53
	return n ^ n>>33
}

// freeName returns the name for the next pod of a slot: one that no pod of this Job has and that is not known
// to be taken.
func (p *plan) freeName(index, slot int) string {
	for attempt := 0; ; attempt++ {
		if name := podName(p.job, index, slot, attempt); !p.hasPodNamed(name) && !p.Past.Taken[name] {
			return name
		}
	}
}

func (p *plan) hasPodNamed(name string) bool {
	_, ok := slices.BinarySearchFunc(p.Pods, name, func(pod *corev1.Pod, name string) int { return strings.Compare(pod.Name, name) })
	return ok
}
