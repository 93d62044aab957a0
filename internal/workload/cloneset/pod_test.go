package cloneset

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// visibility is whether a plan can see a field.
type visibility int

const (
	unseen visibility = iota + 1 // a plan sees no change of the field
	seen
	// presenceOnly: a plan sees only whether the field is set.
	presenceOnly
)

// projection lists which fields of a pod a plan can see, and which not. A field that a later Kubernetes adds
// is in neither list until a developer has decided. A row applies to all fields below it, except those with a
// row of their own. Elements of lists have no number; conditions have their type, and owners whether they are
// the controller.
var projection = table(
	unseen, "apiVersion kind",

	seen, "metadata: name namespace uid labels finalizers creationTimestamp",
	presenceOnly, "metadata: deletionTimestamp",
	unseen, "metadata: resourceVersion", // for the preconditions of writes
	seen, "metadata: generation", // with status.observedGeneration: their difference
	unseen, "metadata: generateName selfLink deletionGracePeriodSeconds managedFields annotations",
	seen, "metadata.annotations: ["+kruise.AnnotationDeletionCost+"] ["+kruise.AnnotationInPlaceState+"] ["+kruise.AnnotationInPlaceGrace+"] ["+kruise.AnnotationStateSince+"]",
	seen, "metadata.ownerReferences[controller]: uid controller",
	unseen, "metadata.ownerReferences[controller]: apiVersion kind name blockOwnerDeletion",
	unseen, "metadata.ownerReferences[other]",

	seen, "spec: nodeName readinessGates terminationGracePeriodSeconds",
	seen, "spec.containers[]: name image resources resizePolicy",
	unseen, "spec.containers[]: command args workingDir ports envFrom env restartPolicy restartPolicyRules volumeMounts volumeDevices",
	unseen, "spec.containers[]: livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy",
	unseen, "spec.containers[]: securityContext stdin stdinOnce tty",
	unseen, "spec: initContainers ephemeralContainers volumes restartPolicy activeDeadlineSeconds",
	unseen, "spec: dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken hostNetwork hostPID hostIPC",
	unseen, "spec: shareProcessNamespace securityContext imagePullSecrets hostname subdomain affinity schedulerName tolerations hostAliases",
	unseen, "spec: priorityClassName priority dnsConfig runtimeClassName enableServiceLinks preemptionPolicy overhead schedulingGroup",
	unseen, "spec: topologySpreadConstraints setHostnameAsFQDN os hostUsers schedulingGates resourceClaims resources hostnameOverride",

	seen, "status: phase",
	seen, "status.conditions[Ready]: type status lastTransitionTime",
	seen, "status.conditions["+kruise.ConditionInPlaceUpdateReady+"]: type status lastTransitionTime message",
	seen, "status.conditions["+kruise.ConditionPodReady+"]: type status lastTransitionTime message",
	unseen, "status.conditions[Ready]: message lastProbeTime reason observedGeneration",
	unseen, "status.conditions["+kruise.ConditionInPlaceUpdateReady+"]: lastProbeTime reason observedGeneration",
	unseen, "status.conditions["+kruise.ConditionPodReady+"]: lastProbeTime reason observedGeneration",
	unseen, "status.conditions[other]",
	seen, "status.containerStatuses[]: name image imageID containerID ready restartCount resources",
	seen, "status.containerStatuses[].state.running: startedAt",
	unseen, "status.containerStatuses[]: state lastState started allocatedResources volumeMounts user allocatedResourcesStatus stopSignal",
	seen, "status: observedGeneration",
	unseen, "status: message reason nominatedNodeName hostIP hostIPs podIP podIPs startTime initContainerStatuses",
	unseen, "status: qosClass ephemeralContainerStatuses resize resourceClaimStatuses extendedResourceClaimStatus allocatedResources resources nodeAllocatableResourceClaimStatuses",
)

// table builds rows from "path: field field [key]".
func table(cells ...any) map[string]visibility {
	rows := map[string]visibility{}
	for i := 0; i < len(cells); i += 2 {
		path, fields, ok := strings.Cut(cells[i+1].(string), ": ")
		if !ok {
			path, fields = "", path
		}
		for _, field := range strings.Fields(fields) {
			if path != "" && field[0] != '[' {
				field = "." + field
			}
			if _, twice := rows[path+field]; twice {
				panic(path + field + " has two rows")
			}
			rows[path+field] = cells[i].(visibility)
		}
	}
	return rows
}

// visibilityOf returns the row of a path, or of the nearest path above it.
func visibilityOf(path string) visibility {
	for path != "" {
		if s, ok := projection[path]; ok {
			return s
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// visible reports whether a plan sees that a field appears or disappears: it does if it sees any part of it.
func visible(path string) bool {
	if visibilityOf(path) >= seen {
		return true
	}
	for row, s := range projection {
		if below, ok := strings.CutPrefix(row, path); ok && s >= seen && (strings.HasSuffix(path, "]") || strings.ContainsAny(below[:1], ".[")) {
			return true
		}
	}
	return false
}

// mutation is a change of a pod that can be undone.
type mutation struct {
	path string
	// field: a value changes; otherwise something appears or disappears.
	field bool
	do    func() (undo func())
}

// isSeen is precomputed, because it is called thousands of times for each pod.
func (m mutation) isSeen() bool {
	if m.field {
		return visibilityOf(m.path) == seen
	}
	sees, known := visibles[m.path]
	if !known {
		sees = visible(m.path)
		visibles[m.path] = sees
	}
	return sees
}

var visibles = map[string]bool{}

// mutations returns all single changes of a pod.
func mutations(pod *corev1.Pod) (all []mutation) {
	add := func(path string, field bool, do func() func()) { all = append(all, mutation{path, field, do}) }
	var walk func(path string, v reflect.Value)
	set := func(v reflect.Value, to func() reflect.Value) func() func() {
		return func() func() {
			was := reflect.New(v.Type()).Elem()
			was.Set(v)
			v.Set(to())
			return func() { v.Set(was) }
		}
	}
	walk = func(path string, v reflect.Value) {
		if isValue(v.Type()) {
			add(path, true, set(v, func() reflect.Value { return differentValue(v) }))
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				name, ok := jsonName(v.Type().Field(i))
				if path+name == "metadata.ownerReferences[other].controller" {
					continue // the API allows only one controller
				}
				if ok {
					walk(strings.TrimPrefix(path+name, "."), v.Field(i))
				}
			}
		case reflect.Pointer:
			if v.IsNil() {
				add(path, false, set(v, func() reflect.Value { return filled(v.Type()) }))
				return
			}
			add(path, false, set(v, func() reflect.Value { return reflect.Zero(v.Type()) }))
			walk(path, v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				name := path + element(v.Index(i))
				add(name, false, set(v, func() reflect.Value {
					rest := reflect.MakeSlice(v.Type(), 0, v.Len())
					return reflect.AppendSlice(reflect.AppendSlice(rest, v.Slice(0, i)), v.Slice(i+1, v.Len()))
				}))
				walk(name, v.Index(i))
			}
			add(path+element(reflect.Zero(v.Type().Elem())), false, set(v, func() reflect.Value {
				more := filled(v.Type().Elem())
				if ref, ok := more.Interface().(metav1.OwnerReference); ok {
					ref.Controller = nil
					more = reflect.ValueOf(ref)
				}
				return reflect.Append(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()+1), v), more)
			}))
		case reflect.Map:
			keys := slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			put := func(key reflect.Value, to func() reflect.Value) func() func() {
				return func() func() {
					was := reflect.New(v.Type()).Elem()
					was.Set(v)
					changed := reflect.MakeMap(v.Type()) // the view uses the old map
					for _, k := range keys {
						changed.SetMapIndex(k, v.MapIndex(k))
					}
					changed.SetMapIndex(key, to())
					v.Set(changed)
					return func() { v.Set(was) }
				}
			}
			for _, key := range keys {
				name := path + "[" + key.String() + "]"
				add(name, false, put(key, func() reflect.Value { return reflect.Value{} }))
				if !isValue(v.Type().Elem()) {
					panic("no way into the map " + path)
				}
				add(name, true, put(key, func() reflect.Value { return differentValue(v.MapIndex(key)) }))
			}
			key := reflect.ValueOf("one-more").Convert(v.Type().Key())
			if !v.MapIndex(key).IsValid() { // a second entry with the same value would not be a change
				add(path+"[one-more]", false, put(key, func() reflect.Value { return filled(v.Type().Elem()) }))
			}
		default:
			panic(fmt.Sprintf("%s: no way to change a %s", path, v.Type()))
		}
	}
	walk("", reflect.ValueOf(pod).Elem())
	return all
}

// isValue reports whether a type is changed as a whole.
func isValue(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[[]byte]():
		return true
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return true
	}
	return false
}

// differentValue returns a different value.
func differentValue(v reflect.Value) reflect.Value {
	var other any
	switch is := v.Interface().(type) {
	case metav1.Time:
		other = metav1.NewTime(is.Add(time.Second))
	case metav1.MicroTime:
		other = metav1.NewMicroTime(is.Add(time.Second))
	case resource.Quantity:
		is = is.DeepCopy()
		is.Add(resource.MustParse("1"))
		other = is
	case intstr.IntOrString:
		is.IntVal++
		other = is
	case []byte:
		other = append(slices.Clone(is), 'x')
	default:
		switch v.Kind() {
		case reflect.String:
			other = v.String() + "x"
		case reflect.Bool:
			other = !v.Bool()
		default:
			other = v.Int() + 1
		}
	}
	return reflect.ValueOf(other).Convert(v.Type())
}

// filled returns a value without empty fields.
func filled(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t {
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.NewTime(noon)))
		return v
	case reflect.TypeFor[metav1.MicroTime]():
		v.Set(reflect.ValueOf(metav1.NewMicroTime(noon)))
		return v
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse("3")))
		return v
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString("filled")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint('7')
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(filled(t.Elem()))
	case reflect.Slice:
		v.Set(reflect.Append(v, filled(t.Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(reflect.ValueOf("filled").Convert(t.Key()), filled(t.Elem()))
	case reflect.Struct:
		for i := range t.NumField() {
			if _, ok := jsonName(t.Field(i)); ok {
				v.Field(i).Set(filled(t.Field(i).Type))
			}
		}
	default:
		panic(t.String())
	}
	return v
}

// jsonName returns what a field adds to a path; "" if it is inlined.
func jsonName(f reflect.StructField) (string, bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "-" || !f.IsExported():
		return "", false
	case f.Anonymous && name == "", strings.Contains(options, "inline"):
		return "", true
	}
	return "." + name, true
}

// element returns the name of a list element in a path.
func element(v reflect.Value) string {
	switch is := v.Interface().(type) {
	case corev1.PodCondition:
		if _, ok := projection["status.conditions["+string(is.Type)+"].type"]; ok {
			return "[" + string(is.Type) + "]"
		}
		return "[other]"
	case metav1.OwnerReference:
		if is.Controller != nil && *is.Controller {
			return "[controller]"
		}
		return "[other]"
	}
	return "[]"
}

// fullPod returns a pod with all fields set.
func fullPod() *corev1.Pod {
	pod := filled(reflect.TypeFor[corev1.Pod]()).Addr().Interface().(*corev1.Pod)
	for path := range projection {
		if key, ok := strings.CutPrefix(path, "metadata.annotations["); ok {
			pod.Annotations[strings.TrimSuffix(key, "]")] = "filled"
		}
	}
	other := pod.OwnerReferences[0]
	other.UID, other.Controller = "other", nil
	pod.OwnerReferences = append(pod.OwnerReferences, other)
	for _, is := range []corev1.PodConditionType{corev1.PodReady, kruise.ConditionInPlaceUpdateReady, kruise.ConditionPodReady} {
		condition := pod.Status.Conditions[0]
		condition.Type, condition.Status = is, corev1.ConditionTrue
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0])
	pod.Spec.Containers[1].Name = "second"
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, pod.Status.ContainerStatuses[0])
	pod.Status.ContainerStatuses[1].Name = "second"
	return pod
}

// TestProjection changes each field of a pod alone, and checks that the plan sees it or not as projection
// says, and that projection contains every field.
func TestProjection(t *testing.T) {
	pod := fullPod().DeepCopy() // shares nothing with the original
	before := View(pod.DeepCopy())
	used := map[string]bool{}
	all := mutations(pod)
	for _, m := range all {
		if visibilityOf(m.path) == 0 && m.field {
			t.Errorf("projection does not contain %s", m.path)
			continue
		}
		for path := m.path; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
			used[path] = true
		}
		undo := m.do()
		after := View(pod)
		if same := before.Same(after); same == m.isSeen() || after.Same(before) != same {
			t.Errorf("%s has changed (its value: %t): Same is %t", m.path, m.field, same)
		}
		undo()
		if !before.Same(View(pod)) {
			t.Fatalf("%s was not changed back", m.path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(projection)) {
		if !used[path] {
			t.Errorf("pods have no %s", path)
		}
	}
	t.Logf("%d changes", len(all))
}

// TestSameIsAllThatCanBeSeen changes many fields of pods that have some of the optional fields.
func TestSameIsAllThatCanBeSeen(t *testing.T) {
	full := fullPod()
	rapid.Check(t, func(t *rapid.T) {
		pod := full.DeepCopy()
		pick := func(name string, from []mutation) mutation { return rapid.SampledFrom(from).Draw(t, name) }
		for range rapid.IntRange(0, 12).Draw(t, "made different") {
			pick("way", mutations(pod)).do()
		}
		before := View(pod.DeepCopy())
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			m := pick("change", slices.DeleteFunc(mutations(pod), mutation.isSeen))
			m.do()
			if after := View(pod); !before.Same(after) {
				t.Fatalf("Same sees the change of %s:\n%+v\n%+v", m.path, before, after)
			}
		}
		m := pick("the change", slices.DeleteFunc(mutations(pod), func(m mutation) bool { return !m.isSeen() }))
		m.do()
		if before.Same(View(pod)) {
			t.Fatalf("Same does not see the change of %s", m.path)
		}
	})
}
