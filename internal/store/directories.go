package store

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// directories records under which directory each resource is stored. Most are stored under their
// plural name, but not all (nodes are under /minions/), so the API server's requests for storage
// are recorded.
type directories struct {
	mu         sync.RWMutex
	byResource map[schema.GroupResource]string
	byName     map[string]schema.GroupResource // by directory
}

func (d *directories) note(resource schema.GroupResource, directory string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byResource == nil {
		d.byResource, d.byName = map[schema.GroupResource]string{}, map[string]schema.GroupResource{}
	}
	d.byResource[resource] = directory
	if _, taken := d.byName[directory]; !taken {
		d.byName[directory] = resource
	}
}

// Directory returns the prefix of all keys of a resource, with its last slash; "" if no storage was
// requested for the resource.
func (ws *Worlds) Directory(resource schema.GroupResource) string {
	d := &ws.directories
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byResource[resource]
}

// ResourceOf returns the resource that a key belongs to, the first one if several share its
// directory. ok is false for a key outside of all directories.
func (ws *Worlds) ResourceOf(key string) (resource schema.GroupResource, ok bool) {
	d := &ws.directories
	d.mu.RLock()
	defer d.mu.RUnlock()
	for end := strings.LastIndexByte(key, '/'); end > 0; end = strings.LastIndexByte(key[:end], '/') {
		if resource, ok = d.byName[key[:end+1]]; ok {
			return resource, true
		}
	}
	return resource, false
}
