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

// Names of pods follow from the set's UID and a slot: who decides the same thing twice,
// on old caches, after a lost answer or after a restart, makes the same name twice, and
// the API refuses the second pod. A slot is free when no pod and no claim bears its
// instance-id; the first free ones are taken. Kruise draws five letters, and two decisions
// of the same thing make two pods.

const (
	labelInstance  = kruise.LabelInstanceID
	instanceLength = 8
	hashLength     = 10
	// letters have neither vowels nor digits that look like letters, as the suffixes that
	// the API makes.
	letters = "bcdfghjklmnpqrstvwxz2456789"
	// longestName leaves the name of a pod a DNS label, so that it can be a hostname.
	longestName = 63
)

// instanceID is that of a slot.
func instanceID(set types.UID, slot int) string {
	return word(instanceLength, string(set)+"/"+strconv.Itoa(slot))
}

// word is so many letters that follow from a text.
func word(length int, text string) string {
	sum := sha256.Sum256([]byte(text))
	n := binary.BigEndian.Uint64(sum[:])
	out := make([]byte, length)
	for i := range out {
		out[i] = letters[n%uint64(len(letters))]
		n /= uint64(len(letters))
	}
	return string(out)
}

// joined is a name and a suffix, the name cut so that both fit.
func joined(name, suffix string) string {
	if most := longestName - len(suffix) - 1; len(name) > most {
		name = strings.TrimRight(name[:most], "-.")
	}
	return name + "-" + suffix
}

func podName(set, instance string) string { return joined(set, instance) }

// claimName is Kruise's. Claims are no hostnames, and their names may be longer.
func claimName(template, set, instance string) string { return template + "-" + set + "-" + instance }

// Digest tells templates apart: two that mean the same have the same digest. It is for
// templates with what the API fills in.
//
// Kruise compares the bytes that a library of some version wrote; Kubernetes 1.34 leaves
// creationTimestamp out, and who compares bytes then updates every pod of every set.
func Digest(t *corev1.PodTemplateSpec) string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // it was read from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// revisionName is the name of the revision of a template, after so many collisions.
func revisionName(set, digest string, collisions int32) string {
	if collisions > 0 {
		digest += "/" + strconv.Itoa(int(collisions))
	}
	return joined(set, word(hashLength, digest))
}

// shortHash is what revisionName adds to the name of the set.
func shortHash(revision string) string { return revision[strings.LastIndexByte(revision, '-')+1:] }
