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

// maxDecodings bounds the memory: when it is reached, the cache is emptied.
const maxDecodings = 4096

// NewDecodings returns an empty cache. decode turns stored bytes into the object as JSON has it.
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
