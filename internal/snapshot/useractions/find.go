package useractions

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// DefaultManagers are patterns for the field managers of tools with which users change a cluster.
var DefaultManagers = []string{
	"kubectl*", "oc", "k9s", "lens*", "Mozilla*", "dashboard*", "headlamp*", "helm*", "Helm*",
	"argocd*", "flux*", "kustomize-controller", "helm-controller", "pulumi*", "Terraform*", "HashiCorp*", "ansible*",
}

// Verb is what a user did.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Patch  Verb = "patch"
	Delete Verb = "delete"
)

// Action is one action of a user.
type Action struct {
	After    time.Duration // since the start of the recording
	Document int           // of the recording, from 1
	Verb     Verb
	Resource schema.GroupResource
	Object   types.NamespacedName
	// Content is the object of Create and the patch of Patch, without the fields that the API server sets.
	Content     map[string]any
	PatchType   types.PatchType
	Subresource string
	Propagation metav1.DeletionPropagation
}

// Result is what a recording says about its users.
type Result struct {
	Objects []*unstructured.Unstructured // that exist before the first action, in an order in which they can be created
	Actions []Action
	Kinds   []schema.GroupKind // of all recorded objects, also of those that controllers made, sorted
	LeftOut []string           // sentences about what the result lacks, for people
}

// object is what is known about one recorded object.
type object struct {
	kind        schema.GroupVersionKind
	dependent   bool // it has owner references
	users       bool // a user made it, and the scenario has it
	terminating bool
	expires     bool // a Job that its TTL removes
}

// finder is one call of Find.
type finder struct {
	managers []string
	builtIn  func(schema.GroupVersionKind) bool
	objects  map[schema.GroupResource]map[types.NamespacedName]*object
	kinds    map[schema.GroupKind]bool
	statuses map[schema.GroupKind]bool // custom resources that have a status subresource
	plurals  map[schema.GroupKind]schema.GroupResource
	omitted  map[string]*omission
	result   Result
}

// omission counts what is left out for one reason.
type omission struct {
	count   int
	example string
}

// Find returns the actions of users in a recording: its objects, in any order, and then its changes in theirs. A pattern of managers is one of
// path.Match. A change without a manager, as in a recording of KWOK, matches if it is not one of a status alone.
//
// An object with owner references belongs to its owner's controller: it is left out, and so are changes of it, because its name
// or its existence may differ in another run. A delete is a user's if a user made the object, its namespace is not being deleted, and its TTL does not
// explain it.
//
// builtIn reports whether the patches of a kind are strategic merge patches; those of other kinds are JSON merge patches.
func Find(objects []*unstructured.Unstructured, changes []snapshot.Change, managers []string, builtIn func(schema.GroupVersionKind) bool) (*Result, error) {
	for _, pattern := range managers {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("field manager %q is not a pattern: %w", pattern, err)
		}
	}
	f := &finder{
		managers: managers, builtIn: builtIn, objects: map[schema.GroupResource]map[types.NamespacedName]*object{}, kinds: map[schema.GroupKind]bool{},
		statuses: map[schema.GroupKind]bool{}, plurals: map[schema.GroupKind]schema.GroupResource{}, omitted: map[string]*omission{},
	}
	for _, o := range objects {
		f.define(o)
	}
	for _, o := range objects {
		f.initial(o)
	}
	for i := range changes {
		f.change(&changes[i])
	}
	f.keepFewNodes()
	f.addNamespaces()
	slices.SortStableFunc(f.result.Objects, func(a, b *unstructured.Unstructured) int {
		return snapshot.CompareKinds(a.GroupVersionKind().GroupKind(), b.GroupVersionKind().GroupKind())
	})
	f.result.Kinds = slices.SortedFunc(maps.Keys(f.kinds), snapshot.CompareKinds)
	f.result.LeftOut = f.sentences()
	return &f.result, nil
}

// define remembers the resource of a custom kind.
func (f *finder) define(o *unstructured.Unstructured) {
	if o.GroupVersionKind().GroupKind() != snapshot.CRD {
		return
	}
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(o.Object, append([]string{"spec"}, path...)...)
		return s
	}
	k := schema.GroupKind{Group: text("group"), Kind: text("names", "kind")}
	f.plurals[k] = schema.GroupResource{Group: k.Group, Resource: text("names", "plural")}
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok {
			_, has, _ := unstructured.NestedFieldNoCopy(v, "subresources", "status")
			f.statuses[k] = f.statuses[k] || has
		}
	}
}

// resourceOf returns the resource of a kind.
func (f *finder) resourceOf(k schema.GroupVersionKind) schema.GroupResource {
	if r, ok := f.plurals[k.GroupKind()]; ok {
		return r
	}
	plural, _ := meta.UnsafeGuessKindToResource(k)
	return plural.GroupResource()
}

// track remembers an object, which replaces an earlier one of its name.
func (f *finder) track(r schema.GroupResource, o *unstructured.Unstructured, users bool) *object {
	if f.objects[r] == nil {
		f.objects[r] = map[types.NamespacedName]*object{}
	}
	_, expires, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "ttlSecondsAfterFinished")
	known := &object{kind: o.GroupVersionKind(), dependent: len(o.GetOwnerReferences()) > 0, users: users, expires: expires}
	known.terminating = o.GetDeletionTimestamp() != nil
	f.objects[r][nameOf(o)] = known
	f.kinds[known.kind.GroupKind()] = true
	return known
}

// initial decides on an object that existed when the recording began.
func (f *finder) initial(o *unstructured.Unstructured) {
	k := o.GroupVersionKind()
	known := f.track(f.resourceOf(k), o, true)
	switch reason := notRepeatable(o); {
	case known.dependent:
		return // its controller makes it again
	case known.terminating:
		f.omit("objects that were being deleted when the recording began", describe(k.Kind, nameOf(o)))
	case reason != "":
		known.users = false // later changes of it have no object
		f.omit(reason, describe(k.Kind, nameOf(o)))
	default:
		o = clean(o)
		o.SetFinalizers(nil) // a controller has added them, and does so again
		f.result.Objects = append(f.result.Objects, o)
	}
}

// change decides on one change.
func (f *finder) change(c *snapshot.Change) {
	r, name := c.Resource.GroupResource(), types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	known := f.objects[r][name]
	action := Action{After: c.After, Document: c.Document, Resource: r, Object: name}
	switch c.Method {
	case snapshot.Create:
		f.created(c, action)
	case snapshot.Delete:
		if known != nil {
			f.deleted(known, action)
			delete(f.objects[r], name)
		}
	case snapshot.Patch:
		if known == nil {
			return
		}
		if _, terminates, _ := unstructured.NestedFieldNoCopy(c.Template, "metadata", "deletionTimestamp"); terminates {
			action.Propagation = propagationOf(c.Template)
			f.deleted(known, action)
			known.terminating = true
			return
		}
		f.patched(known, c, action)
	}
}

func (f *finder) created(c *snapshot.Change, action Action) {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(c.Template)}
	known := f.track(action.Resource, o, f.isUser(c) && len(o.GetOwnerReferences()) == 0)
	if !known.users {
		return
	}
	if reason := notRepeatable(o); reason != "" {
		known.users = false // later changes of it have no object
		f.omit(reason, describe(known.kind.Kind, action.Object))
		return
	}
	action.Verb, action.Content = Create, clean(o).Object
	f.result.Actions = append(f.result.Actions, action)
}

// deleted decides on the beginning of a deletion, or on a deletion without one.
func (f *finder) deleted(known *object, action Action) {
	namespace := f.objects[schema.GroupResource{Resource: "namespaces"}][types.NamespacedName{Name: action.Object.Namespace}]
	switch {
	case known.terminating:
		return
	case known.dependent:
		f.omit("deletes of objects with an owner: a controller may have sent them", describe(known.kind.Kind, action.Object))
		return
	case !known.users || namespace != nil && namespace.terminating || known.expires:
		return
	}
	if action.Propagation == "" {
		action.Propagation = metav1.DeletePropagationBackground
	}
	action.Verb = Delete
	f.result.Actions = append(f.result.Actions, action)
}

func (f *finder) patched(known *object, c *snapshot.Change, action Action) {
	switch {
	case !f.isUser(c):
		return
	case known.dependent:
		f.omit("changes of objects with an owner: their names differ in another run", describe(known.kind.Kind, action.Object))
		return
	case !known.users || known.terminating:
		f.omit("changes of objects that the scenario does not have: a controller made them, they are left out, or they were being deleted", describe(known.kind.Kind, action.Object))
		return
	}
	patch := runtime.DeepCopyJSON(c.Template)
	snapshot.TrimPatch(patch)
	trimOwners(patch)
	action.Subresource = f.subresource(known.kind.GroupKind(), patch)
	if _, status := patch["status"]; status && action.Subresource != "status" && f.hasStatus(known.kind.GroupKind()) {
		delete(patch, "status") // another client has written it at the same moment
	}
	if len(patch) == 0 {
		return
	}
	action.Verb, action.Content, action.PatchType = Patch, patch, types.MergePatchType
	if f.builtIn(known.kind) {
		action.PatchType = types.StrategicMergePatchType
	}
	f.result.Actions = append(f.result.Actions, action)
}

// isUser reports whether a user made a change. A controller changes the status alone far more often than a user does, so a change
// of a status requires a manager.
func (f *finder) isUser(c *snapshot.Change) bool {
	if c.Manager == "" {
		_, status := c.Template["status"]
		return !status || c.Method == snapshot.Create
	}
	return slices.ContainsFunc(f.managers, func(pattern string) bool {
		match, _ := path.Match(pattern, c.Manager) // Find has checked the pattern
		return match
	})
}

// Managers returns the field managers of changes, sorted. A change without one counts as "(unknown)".
func Managers(changes []snapshot.Change) []string {
	all := map[string]bool{}
	for i := range changes {
		if name := changes[i].Manager; name != "" {
			all[name] = true
		} else if changes[i].Method != snapshot.Delete {
			all["(unknown)"] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (f *finder) hasStatus(k schema.GroupKind) bool {
	if _, custom := f.plurals[k]; custom {
		return f.statuses[k]
	}
	return true
}

// subresource returns the subresource that accepts a patch.
func (f *finder) subresource(k schema.GroupKind, patch map[string]any) string {
	_, status := patch["status"]
	if status && len(patch) == 1 && f.hasStatus(k) {
		return "status"
	}
	containers, _, _ := unstructured.NestedSlice(patch, "spec", "containers")
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok && k == (schema.GroupKind{Kind: "Pod"}) && c["resources"] != nil {
			return "resize"
		}
	}
	return ""
}

func (f *finder) omit(reason, example string) {
	if f.omitted[reason] == nil {
		f.omitted[reason] = &omission{example: example}
	}
	f.omitted[reason].count++
}

func (f *finder) sentences() []string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(f.omitted)) {
		o := f.omitted[reason]
		out = append(out, fmt.Sprintf("%s (%d, such as %s)", reason, o.count, o.example))
	}
	return out
}

func describe(kind string, name types.NamespacedName) string {
	return kind + " " + strings.TrimPrefix(name.String(), "/")
}

func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
