package clonesets

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// mostPods is the maximal number of pods that a CloneSet of the family wants: every pod takes twenty steps or
// more, and races need few pods.
const mostPods = 5

// The handlers of the family's hooks.
var (
	preDeleteLabels    = map[string]string{"hook.example/pre-delete": "yes"}
	inPlaceLabels      = map[string]string{"hook.example/in-place": "yes"}
	preNormalLabels    = map[string]string{"hook.example/pre-normal": "yes"}
	preDeleteFinalizer = "hook.example/pre-delete"
	inPlaceFinalizer   = "hook.example/in-place"
	preNormalFinalizer = "hook.example/pre-normal"
)

// Draw returns the case of a seed; the same one each time. The API accepts its spec.
func Draw(seed int) Case { return draw(seed, wider(seed)) }

// DrawBase is Draw without the additions to the family of 2026-11-23 (wider): seeds that were recorded before
// find the same failures with it.
func DrawBase(seed int) Case { return draw(seed, widening{}) }

func draw(seed int, more widening) Case {
	c := rapid.Custom(func(t *rapid.T) Case { return drawCase(t, more) }).Example(seed)
	c.Seed = seed
	more.complete(&c)
	return c
}

// drawer draws a case, and contains the current state of the template.
type drawer struct {
	*rapid.T
	widening
	c *Case
	// images are of main and side; metadata and variable are values that change.
	images             [2]string
	metadata, variable int
	side, byMetadata   bool
}

func drawCase(t *rapid.T, more widening) Case {
	c := Case{}
	d := &drawer{T: t, widening: more, c: &c, images: [2]string{"web:1", "log:1"}}
	c.Replicas = rapid.SampledFrom([]int32{0, 1, 1, 2, 2, 3, 3, 3, 4, mostPods}).Draw(t, "replicas")
	d.update()
	d.scaling()
	d.hooks()
	d.pods()
	c.Spec.Template = d.template()
	d.changes()
	d.moreChanges()
	return c
}

func (d *drawer) one(n int, what string) bool { return rapid.IntRange(1, n).Draw(d.T, what) == n }

func pick[T any](d *drawer, what string, of ...T) T { return rapid.SampledFrom(of).Draw(d.T, what) }

func number(n int) *intstr.IntOrString { return ptr.To(intstr.FromInt32(int32(n))) }

func percent(n int) *intstr.IntOrString { return ptr.To(intstr.FromString(fmt.Sprintf("%d%%", n))) }

func (d *drawer) update() {
	s := &d.c.Spec
	u := &s.UpdateStrategy
	u.Type = pick(d, "type", v1alpha1.ReCreate, v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceOnly, v1alpha1.OnDelete)
	u.Partition = pick(d, "partition", nil, nil, nil, number(0), number(1), number(2), percent(50), percent(99))
	u.MaxUnavailable = pick(d, "maxUnavailable", nil, number(1), number(1), number(2), percent(20), percent(50), percent(100))
	if u.Type != v1alpha1.InPlaceOnly {
		if u.MaxSurge = pick(d, "maxSurge", nil, nil, number(0), number(1), number(2), percent(30)); surges(u) && d.one(2, "none unavailable") {
			u.MaxUnavailable = number(0)
		}
	}
	if d.one(8, "paused") {
		u.Paused = true
	}
	if u.Type == v1alpha1.InPlaceIfPossible || u.Type == v1alpha1.InPlaceOnly {
		if seconds := pick(d, "grace", 0, 0, 3); seconds > 0 {
			u.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: int32(seconds)}
		}
	}
	switch rapid.IntRange(0, 7).Draw(d.T, "priority") {
	case 0:
		u.PriorityStrategy = &kruise.UpdatePriorityStrategy{OrderPriority: []kruise.UpdatePriorityOrderTerm{{OrderedKey: kruise.LabelInstanceID}}}
	case 1:
		u.PriorityStrategy = &kruise.UpdatePriorityStrategy{WeightPriority: []kruise.UpdatePriorityWeightTerm{
			{Weight: 10, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"rehearse-k8s.github.io/touched": "yes"}}}}}
	case 2:
		u.ScatterStrategy = []kruise.UpdateScatterTerm{{Key: "rehearse-k8s.github.io/touched", Value: "yes"}}
	}
	s.MinReadySeconds = pick[int32](d, "minReadySeconds", 0, 0, 0, 2, 6)
	s.ProgressDeadlineSeconds = pick(d, "progressDeadlineSeconds", nil, nil, ptr.To[int32](15), ptr.To[int32](120))
	s.RevisionHistoryLimit = pick(d, "revisionHistoryLimit", nil, nil, ptr.To[int32](0), ptr.To[int32](1))
}

func surges(u *v1alpha1.CloneSetUpdateStrategy) bool {
	return u.MaxSurge != nil && *u.MaxSurge != *number(0)
}

func (d *drawer) scaling() {
	s := &d.c.Spec
	if d.one(5, "scaleStrategy.maxUnavailable") {
		s.ScaleStrategy.MaxUnavailable = pick(d, "at most", number(1), number(2), percent(50))
	}
	if d.one(3, "claims") {
		s.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
		s.ScaleStrategy.DisablePVCReuse = rapid.Bool().Draw(d.T, "disablePVCReuse")
	}
	d.c.Excludes = d.one(5, "excludes")
}

// hooks draws which hooks there are, how pods get their handlers, and how the hook controller acts.
func (d *drawer) hooks() {
	hook := func(what string, labels map[string]string, finalizer string) *kruise.LifecycleHook {
		if !d.one(3, what) {
			return nil
		}
		h := &kruise.LifecycleHook{MarkPodNotReady: d.one(3, "markPodNotReady")}
		switch rapid.IntRange(0, 3).Draw(d.T, "handlers") {
		case 0:
			h.LabelsHandler, h.FinalizersHandler = labels, []string{finalizer}
		case 1:
			h.FinalizersHandler = []string{finalizer}
		default:
			h.LabelsHandler = labels
		}
		return h
	}
	l := &kruise.Lifecycle{
		PreDelete:     hook("preDelete", preDeleteLabels, preDeleteFinalizer),
		InPlaceUpdate: hook("inPlaceUpdate", inPlaceLabels, inPlaceFinalizer),
		PreNormal:     hook("preNormal", preNormalLabels, preNormalFinalizer),
	}
	if l.PreDelete == nil && l.InPlaceUpdate == nil && l.PreNormal == nil {
		return
	}
	if l.PreNormal != nil {
		l.PreNormal.MarkPodNotReady = false // MarkPodNotReady has an effect only in the other hooks
	}
	d.c.Spec.Lifecycle = l
	d.c.Drain = time.Duration(pick(d, "drain", 0, 1, 4)) * time.Second
	d.c.Register = time.Duration(pick(d, "register", 0, 0, 3)) * time.Second
	d.c.Early, d.c.OneByOne = rapid.Bool().Draw(d.T, "early"), d.one(3, "one by one")
	d.c.Born = rapid.Bool().Draw(d.T, "born")
	d.c.Never = pick(d, "never", 0, 0, 0, 3)
}

// pods draws the behaviour of pods.
func (d *drawer) pods() {
	c := d.c
	c.Unready, c.Unbound = pick(d, "unready", 0, 0, 0, 3), pick(d, "unbound", 0, 0, 0, 0, 3)
	c.Start = time.Duration(pick(d, "start", 0, 0, 2, 5)) * time.Second
	c.Restart = time.Duration(pick(d, "restart", 0, 1, 4)) * time.Second
	c.Stop = time.Duration(pick(d, "stop", 0, 1, 3)) * time.Second
	c.SameImage = d.one(5, "same image")
	d.side, d.byMetadata = d.one(3, "side"), d.one(4, "by metadata")
}

// template returns the current template.
func (d *drawer) template() corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{}
	t.Labels = map[string]string{"app": setName}
	t.Annotations = map[string]string{"example.com/version": fmt.Sprint(d.metadata)}
	if l := d.c.Spec.Lifecycle; l != nil && d.c.Born {
		for _, h := range []*kruise.LifecycleHook{l.PreDelete, l.InPlaceUpdate} {
			if h != nil {
				for key, value := range h.LabelsHandler {
					t.Labels[key] = value
				}
				t.Finalizers = append(t.Finalizers, h.FinalizersHandler...)
			}
		}
	}
	t.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	main := corev1.Container{Name: "main", Image: d.images[0], Env: []corev1.EnvVar{{Name: "VARIABLE", Value: fmt.Sprint(d.variable)}}}
	if d.byMetadata {
		main.Env = append(main.Env, corev1.EnvVar{Name: "VERSION", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['example.com/version']"}}})
	}
	t.Spec.Containers = []corev1.Container{main}
	if d.side {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "agent", Image: d.images[1]}) // its name sorts before main, which it follows
		d.prioritize(&t)
	}
	d.resources(&t.Spec.Containers[0])
	return t
}

// templatePatch returns a patch of the CloneSet to the current template.
func (d *drawer) templatePatch() string {
	text, err := json.Marshal(d.template())
	if err != nil {
		panic(err) // types of this repository can be encoded
	}
	return fmt.Sprintf(`{"spec":{"template":%s}}`, text)
}

// changes draws the changes of the user to the CloneSet and to its pods.
func (d *drawer) changes() {
	c := d.c
	for range pick(d, "number", 0, 1, 1, 2, 2, 3, 4) {
		change := Change{After: time.Duration(rapid.IntRange(1, 100).Draw(d.T, "wait")) * 100 * time.Millisecond}
		patch := func(format string, args ...any) { change.Patch = fmt.Sprintf(`{"spec":`+format+`}`, args...) }
		strategy := func(format string, args ...any) { patch(`{"updateStrategy":{`+format+`}}`, args...) }
		template := func() { change.Patch = d.templatePatch() }
		switch rapid.IntRange(0, 19).Draw(d.T, "change") {
		case 0, 1, 2, 3:
			d.images[0] = pick(d, "image", "web:1", "web:2", "web:3", "web:"+broken)
			template()
		case 4:
			d.images[1] = pick(d, "side image", "log:1", "log:2")
			d.images[0] = pick(d, "image", "web:1", "web:2")
			template()
		case 5:
			if c.Spec.UpdateStrategy.Type == v1alpha1.InPlaceOnly {
				d.metadata++
			} else {
				d.variable = 1 - d.variable
			}
			template()
		case 6, 7:
			d.metadata = 1 - d.metadata
			template()
		case 8, 9, 10:
			patch(`{"replicas":%d}`, rapid.IntRange(0, mostPods).Draw(d.T, "to"))
		case 11:
			strategy(`"partition":%d`, rapid.IntRange(0, 2).Draw(d.T, "partition to"))
		case 12:
			strategy(`"paused":%t`, rapid.Bool().Draw(d.T, "paused or not"))
		case 13:
			if surges(&c.Spec.UpdateStrategy) {
				strategy(`"maxSurge":0,"maxUnavailable":1`)
			} else {
				strategy(`"type":%q`, pick(d, "type to", v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible, v1alpha1.OnDelete))
			}
		case 14:
			if c.Spec.Lifecycle != nil {
				patch(`{"lifecycle":{%q:null}}`, pick(d, "hook", "preDelete", "inPlaceUpdate", "preNormal"))
			} else {
				patch(`{"minReadySeconds":%d}`, rapid.IntRange(0, 3).Draw(d.T, "ready for"))
			}
		default:
			change.Pod = pick(d, "do", deletes, deletes, specifies, names, names, leaves)
			change.Which = rapid.IntRange(0, mostPods-1).Draw(d.T, "which")
			change.Fewer = change.Pod != deletes && change.Pod != leaves && rapid.Bool().Draw(d.T, "fewer")
		}
		c.Changes = append(c.Changes, change)
	}
}
