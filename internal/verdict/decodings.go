package verdict

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Decodings caches decoded objects by their stored bytes. Runs of one test write the same bytes
// again and again; the decoded objects are shared and must not be changed.
type Decodings struct {
	decode func(value []byte) (map[string]any, error)

	mu    sync.Mutex
	known map[decodingKey]*unstructured.Unstructured
}

type decodingKey struct {
	value    string
	revision int64
}

// maxDecodings limits the memory: when the cache is full, it is emptied.
const maxDecodings = 4096

// NewDecodings returns an empty cache. decode converts stored bytes into the JSON form of the object.
func NewDecodings(decode func(value []byte) (map[string]any, error)) *Decodings {
	return &Decodings{decode: decode, known: map[decodingKey]*unstructured.Unstructured{}}
}

// get returns the decoded object; nil if the bytes cannot be decoded.
func (d *Decodings) get(value []byte, revision int64) *unstructured.Unstructured {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u, ok := d.known[decodingKey{string(value), revision}]; ok {
		return u
	}
	var u *unstructured.Unstructured
	if content, err := d.decode(value); err == nil {
		u = &unstructured.Unstructured{Object: content}
		u.SetResourceVersion(strconv.FormatInt(revision, 10))
	}
	if len(d.known) >= maxDecodings {
		clear(d.known)
	}
	d.known[decodingKey{string(value), revision}] = u
	return u
}
