package cloneset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// Names of pods are derived from the set's UID and a slot: a controller that decides the same thing twice (on
// a stale cache, after a lost answer or after a restart) uses the same name twice, and the API server rejects
// the second pod. A slot is free when no pod and no claim has its instance-id; the first free slots are used.
// Kruise uses five random letters, so that the same decision, made twice, creates two pods.

const (
	labelInstance  = kruise.LabelInstanceID
	instanceLength = 8
	hashLength     = 10
	// letters contain neither vowels nor digits that look like letters, as in the suffixes that the API server
	// generates.
	letters = "bcdfghjklmnpqrstvwxz2456789"
	// longestName leaves the name of a pod a DNS label, so that it can be a hostname.
	longestName = 63
)

// instanceID returns the instance-id of a slot.
func instanceID(set types.UID, slot int) string {
	return hashLetters(instanceLength, string(set)+"/"+strconv.Itoa(slot))
}

// hashLetters returns a number of letters that are derived from a text.
func hashLetters(length int, text string) string {
	sum := sha256.Sum256([]byte(text))
	n := binary.BigEndian.Uint64(sum[:])
	out := make([]byte, length)
	for i := range out {
		out[i] = letters[n%uint64(len(letters))]
		n /= uint64(len(letters))
	}
	return string(out)
}

// joinName returns a name and a suffix, with the name cut so that both fit.
func joinName(name, suffix string) string {
	if most := longestName - len(suffix) - 1; len(name) > most {
		name = strings.TrimRight(name[:most], "-.")
	}
	return name + "-" + suffix
}

func podName(set, instance string) string { return joinName(set, instance) }

// claimName returns the same name as Kruise. Claims are not hostnames, so their names may be longer.
func claimName(template, set, instance string) string { return template + "-" + set + "-" + instance }

// Digest returns a digest that is equal for semantically equal templates. The templates must have the API's
// defaults.
//
// Kruise compares encoded bytes, which depend on the version of a library: Kubernetes 1.34 omits
// creationTimestamp, and a controller that compares bytes then updates every pod of every set.
func Digest(t *corev1.PodTemplateSpec) string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // a template that was decoded from JSON can be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// revisionName returns the name of the revision of a template, after so many collisions.
func revisionName(set, digest string, collisions int32) string {
	if collisions > 0 {
		digest += "/" + strconv.Itoa(int(collisions))
	}
	return joinName(set, hashLetters(hashLength, digest))
}

// shortHash returns the part that revisionName appends to the name of the set.
func shortHash(revision string) string { return revision[strings.LastIndexByte(revision, '-')+1:] }
