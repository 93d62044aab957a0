package verdict

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
)

// Object is one object of a final state.
type Object struct {
	Resource string
	Content  map[string]any // the JSON form
	// Private: messages omit more of its values than those of a Secret (see [history.Confidential]).
	Private bool
	// Schema says which lists have no order; nil: it is not known.
	Schema Schema
}

// State is the final state of a run in a form that can be compared with other runs: without UIDs,
// revisions, times and generated names. The key identifies objects: an object with a controller is
// identified by its owner, not by its name.
type State map[string][]fields

// fields maps the paths of an object's leaves to their values.
type fields map[string]string

// ownPrefix starts the labels and finalizers that interference faults add.
const ownPrefix = "rehearse-k8s.github.io/"

// NewState returns the state of objects, without changing them and without the given paths.
func NewState(objects []Object, without ...Path) State {
	known := map[string]string{}  // by UID, or by generated name: the replacement text
	places := map[string]string{} // the same for the nodes and addresses of pods
	hashes := map[string]bool{}
	for _, o := range objects {
		m, _ := o.Content["metadata"].(map[string]any)
		if name, ok := m["name"].(string); ok && m["generateName"] != nil {
			known[name] = "<name of " + o.Resource + ">"
		}
		if o.Resource == "pods" {
			addPlaces(places, o.Content)
		}
		if hash := templateHash(o.Resource, m); hash != "" {
			hashes[hash] = true
		}
		if uid, ok := m["uid"].(string); ok {
			known[uid] = "<uid of " + o.Resource + ">"
		}
	}
	addPredecessors(known, objects)
	r := &replacements{known: known, hashes: slices.Sorted(maps.Keys(hashes)), places: places}
	s := State{}
	for _, o := range objects {
		omitted := pathsOf(o.Resource, without)
		if slices.Contains(omitted, Path{Resource: o.Resource}) {
			continue
		}
		m, _ := o.Content["metadata"].(map[string]any)
		name, _ := m["name"].(string)
		namespace, _ := m["namespace"].(string)
		id := idOf(o.Resource, namespace, name)
		switch owner := controller(m); {
		case owner != "":
			id = o.Resource + ownedBy + strings.TrimPrefix(namespace+"/", "/") + owner
		case m["generateName"] != nil:
			id = fmt.Sprintf("%s %s/%v*", o.Resource, namespace, m["generateName"])
		default:
			name = "" // the user chose this name: it is the same in each run
		}
		f := fields{}
		of := r
		if o.Resource == "pods" || o.Resource == "nodes" {
			of = &replacements{known: known, hashes: r.hashes}
		}
		f.add("", o.Content, o.Schema, objectReplacements{replacements: of, name: name, without: omitted})
		f.addGeneration(o.Content, omitted)
		for path, value := range f {
			if history.Confidential(o.Resource, indexed(path), o.Private) {
				f[path] = confidential + value
			}
		}
		if o.Resource == "persistentvolumeclaims" && f[".status.phase"] == "" {
			f[".status.phase"] = "Pending"
		}
		if o.Resource == "deployments.apps" {
			delete(f, ".status.collisionCount")
		}
		id = r.withoutHashes(id)
		s[id] = append(s[id], f)
	}
	return s
}

// addPredecessors adds the UIDs in owner references that belong to predecessors of existing objects: with the same kind and name.
// Where garbage collection leaves such a reference, because the user created the object that has it, the run differs from
// others only by the UID.
func addPredecessors(known map[string]string, objects []Object) {
	for _, o := range objects {
		m, _ := o.Content["metadata"].(map[string]any)
		refs, _ := m["ownerReferences"].([]any)
		for _, r := range refs {
			ref, _ := r.(map[string]any)
			uid, _ := ref["uid"].(string)
			if uid == "" || known[uid] != "" {
				continue // the usual case
			}
			if owner := slices.IndexFunc(objects, func(o Object) bool { return isNamed(o, ref, m["namespace"]) }); owner >= 0 {
				known[uid] = "<uid of " + objects[owner].Resource + ">"
			}
		}
	}
}

// isNamed reports whether an object has the kind and name of an owner reference in a namespace, or has no namespace.
func isNamed(o Object, ref map[string]any, namespace any) bool {
	m, _ := o.Content["metadata"].(map[string]any)
	return o.Content["kind"] == ref["kind"] && m["name"] == ref["name"] && (m["namespace"] == namespace || m["namespace"] == nil)
}

// observedGeneration is the path under which a state says whether the controller of an object has observed its
// spec: current or behind.
const (
	observedGeneration = ".status.observedGeneration"
	current            = "current"
	behind             = "behind"
)

// addGeneration adds whether status.observedGeneration has reached metadata.generation, if the object has both.
func (f fields) addGeneration(content map[string]any, omitted []Path) {
	generation, ok := integer(content, "metadata", "generation")
	observed, has := integer(content, "status", "observedGeneration")
	if !ok || !has || slices.ContainsFunc(omitted, func(p Path) bool { return p.covers(p.Resource, observedGeneration) }) {
		return
	}
	f[observedGeneration] = current
	if observed < generation {
		f[observedGeneration] = behind
	}
}

// integer returns an integer of an object; false if the object has none at that path.
func integer(content map[string]any, path ...string) (n int64, ok bool) {
	value, _, _ := unstructured.NestedFieldNoCopy(content, path...)
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}

// confidential is the prefix of values that messages must not show. The API server accepts no text that
// contains it.
const confidential = "\x00"

// shown returns the form of a value in messages.
func shown(value string) string {
	if value, ok := strings.CutPrefix(value, confidential); ok {
		return fmt.Sprintf("a value (%d characters)", len(value))
	}
	return strconv.Quote(value)
}

// controller returns the kind and name of an object's controller; "" if it has none.
func controller(metadata map[string]any) string {
	refs, _ := metadata["ownerReferences"].([]any)
	for _, r := range refs {
		if ref, ok := r.(map[string]any); ok && ref["controller"] == true {
			return fmt.Sprintf("%v %v", ref["kind"], ref["name"])
		}
	}
	return ""
}

// alwaysVarying are the paths whose values differ between any two runs.
var alwaysVarying = map[string]bool{
	".metadata.uid": true, ".metadata.resourceVersion": true, ".metadata.creationTimestamp": true,
	".metadata.managedFields": true, ".metadata.generation": true, ".status.observedGeneration": true,
	".metadata.deletionTimestamp": true,
}

// podTemplateHash is the label by which a Deployment distinguishes its ReplicaSets; its value is part of
// their names. If the ReplicaSet of a deleted Deployment still exists when a new Deployment of the same name
// creates its own, the new one counts a collision and uses another hash. That depends only on the speed of
// the garbage collector. So the hash is replaced, and the template itself is compared.
const podTemplateHash = "pod-template-hash"

// templateHash returns the hash in the name of a Deployment's ReplicaSet; "" for any other object.
func templateHash(resource string, metadata map[string]any) string {
	labels, _ := metadata["labels"].(map[string]any)
	hash, _ := labels[podTemplateHash].(string)
	deployment, ok := strings.CutPrefix(controller(metadata), "Deployment ")
	if resource != "replicasets.apps" || hash == "" || !ok || metadata["name"] != deployment+"-"+hash {
		return ""
	}
	return hash
}

// replacements replace the parts of strings that differ between runs.
type replacements struct {
	known  map[string]string
	hashes []string
	places map[string]string // replaced in objects other than pods and nodes
}

// addPlaces adds the node and the addresses of a pod. Which node a pod is bound to depends on the order of events, and
// other objects repeat it: an EndpointSlice, for example. The pods themselves are compared.
func addPlaces(places map[string]string, pod map[string]any) {
	if node, _, _ := unstructured.NestedString(pod, "spec", "nodeName"); node != "" {
		places[node] = "<node of a pod>"
	}
	for _, field := range []string{"hostIP", "podIP"} {
		if ip, _, _ := unstructured.NestedString(pod, "status", field); ip != "" {
			places[ip] = "<address of a pod>"
		}
	}
}

func (r *replacements) withoutHashes(s string) string {
	for _, hash := range r.hashes {
		s = strings.ReplaceAll(s, hash, "<hash>")
	}
	return s
}

// objectReplacements also replace the generated name of the object itself.
type objectReplacements struct {
	*replacements
	name    string
	without []Path
}

// pathsOf returns the paths that apply to a resource, with its name.
func pathsOf(resource string, all []Path) (paths []Path) {
	for _, p := range all {
		if p.Resource == "" || p.Resource == resource {
			paths = append(paths, Path{Resource: resource, Field: p.Field})
		}
	}
	return paths
}

// omits reports whether the state omits a path.
func (r objectReplacements) omits(path string) bool {
	return slices.ContainsFunc(r.without, func(p Path) bool { return p.covers(p.Resource, path) })
}

func (r objectReplacements) text(s string) string {
	if k, ok := r.known[s]; ok && s != r.name {
		return k
	}
	if k, ok := r.places[s]; ok {
		return k
	}
	if len(s) >= len("2000-01-01T00:00:00Z") && s[4] == '-' {
		if _, err := time.Parse(time.RFC3339, s); err == nil {
			return "<time>"
		}
	}
	if r.name != "" {
		s = strings.ReplaceAll(s, r.name, "<name>")
	}
	return withoutUUIDs(r.withoutHashes(s))
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// ownedBy is in the IDs of objects that a controller has named, between their resource and their owner.
const ownedBy = " of "

// idOf returns the ID of an object whose name the user chose.
func idOf(resource, namespace, name string) string {
	return resource + " " + strings.TrimPrefix(namespace+"/"+withoutUUIDs(name), "/")
}

// withoutUUIDs replaces UUIDs in texts derived from an object's UID, such as the name of a
// provisioned volume.
func withoutUUIDs(s string) string {
	if len(s) < 36 || strings.Count(s, "-") < 4 {
		return s
	}
	return uuid.ReplaceAllString(s, "<uid>")
}

func (f fields) add(path string, value any, s Schema, r objectReplacements) {
	if alwaysVarying[path] || len(r.without) > 0 && path != "" && r.omits(path) {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			if !strings.HasPrefix(k, ownPrefix) {
				f.add(joined(path, k), inner, below(s, k), r)
			}
		}
	case []any:
		if conditions := byType(path, v); conditions != nil {
			f.add(path, conditions, nil, r)
			return
		}
		f.addList(path, v, s, r)
	case string:
		f[path] = r.text(v)
	case nil:
	default:
		f[path] = fmt.Sprint(v)
	}
}

// byType returns the conditions of an object by their type; nil if the list does not contain conditions.
// Their order and messages depend on the course of a run and are omitted; type, status and reason describe
// the final state.
func byType(path string, list []any) map[string]any {
	if !strings.HasSuffix(path, ".conditions") {
		return nil
	}
	conditions := make(map[string]any, len(list))
	for _, one := range list {
		c, _ := one.(map[string]any)
		kind, _ := c["type"].(string)
		if _, twice := conditions[kind]; kind == "" || twice {
			return nil
		}
		c = maps.Clone(c)
		delete(c, "type")
		delete(c, "message")
		conditions[kind] = c
	}
	return conditions
}
