package clonesets

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
)

// widening contains additions to an existing family. It is drawn with keys of its own, so that the draws of
// the family are the same as without it. The zero value adds nothing.
type widening struct {
	seed int
	// priorities is how containers get their launch priorities.
	priorities priorityKind
	// cpu and memory of the first container, 0 for no resources; restarts is the resource whose resize
	// restarts it, "" for none.
	cpu, memory int
	restarts    corev1.ResourceName
	// resizes is how often the resources change.
	resizes int
	// recreates: the CloneSet is deleted without its dependents and created again.
	recreates bool
	// regrets: replicas decrease and increase again, while pods wait for their preDelete hook.
	regrets       bool
	late, crashes bool
}

// priorityKind is how containers get their launch priorities.
type priorityKind int

const (
	bothNamed     priorityKind = iota // 1 and 0
	onlyFirst                         // 1 and none
	onlyLast                          // none and 2
	firstNegative                     // -1 and none
	byOrder                           // the annotation
	noPriority
	numPriorities
)

// wider draws the additions to the case of a seed.
func wider(seed int) widening {
	w := widening{seed: seed}
	if w.pick(4, "priorities") > 0 {
		w.priorities = priorityKind(w.pick(int(numPriorities), "which priorities"))
	}
	if w.pick(3, "resources") == 0 {
		w.cpu, w.memory = 1, 1
		w.restarts = []corev1.ResourceName{"", "", corev1.ResourceCPU, corev1.ResourceMemory}[w.pick(4, "restarts")]
		w.resizes = 1 + w.pick(2, "resizes")
	}
	w.recreates = w.pick(5, "recreates") == 0
	w.regrets = w.pick(4, "regrets") == 0
	w.late = w.pick(2, "late") == 0
	w.crashes = w.pick(2, "crashes") == 0
	return w
}

func (w *widening) pick(n int, what string) int { return fault.Pick(n, uint64(w.seed), "wider", what) }

// prioritize sets the launch priorities of the two containers of a template.
func (w *widening) prioritize(t *corev1.PodTemplateSpec) {
	set := func(i int, value string) {
		c := &t.Spec.Containers[i]
		c.Env = append(c.Env, corev1.EnvVar{Name: "KRUISE_CONTAINER_PRIORITY", Value: value})
	}
	switch w.priorities {
	case bothNamed:
		set(0, "1")
		set(1, "0")
	case onlyFirst:
		set(0, "1")
	case onlyLast:
		set(1, "2")
	case firstNegative:
		set(0, "-1")
	case byOrder:
		t.Annotations["apps.kruise.io/container-launch-priority"] = "Ordered"
	}
}

// resources sets the resources of a container, with requests below limits, so that a resize keeps the QoS
// class.
func (w *widening) resources(c *corev1.Container) {
	if w.cpu == 0 {
		return
	}
	amount := func(times int) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(fmt.Sprintf("%dm", 100*w.cpu*times)),
			corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 10*w.memory*times)),
		}
	}
	c.Resources = corev1.ResourceRequirements{Requests: amount(1), Limits: amount(2)}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		policy := corev1.NotRequired
		if name == w.restarts {
			policy = corev1.RestartContainer
		}
		c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: policy})
	}
}

// moreChanges draws additional changes of the user, each inserted at a place of its own.
func (d *drawer) moreChanges() {
	insert := func(what string, changes ...Change) {
		at := d.pick(len(d.c.Changes)+1, what+" at")
		for i := range changes {
			changes[i].After = time.Duration(1+d.pick(40, fmt.Sprint(what, i))) * 100 * time.Millisecond
		}
		d.c.Changes = append(d.c.Changes[:at:at], append(changes, d.c.Changes[at:]...)...)
	}
	var resizes []Change
	for i := range d.resizes {
		if d.pick(2, fmt.Sprint("resized ", i)) == 0 {
			d.cpu++
		} else {
			d.memory++
		}
		if d.pick(4, fmt.Sprint("with an image ", i)) == 0 {
			d.images[0] = "web:4"
		}
		resizes = append(resizes, Change{Patch: d.templatePatch()})
	}
	d.append("resize", resizes...)
	if l := d.c.Spec.Lifecycle; d.regrets && l != nil && l.PreDelete != nil && d.c.Replicas > 1 {
		replicas := func(n int32) Change { return Change{Patch: fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)} }
		insert("regret", replicas(d.c.Replicas-1), replicas(d.c.Replicas))
	}
	if d.recreates {
		insert("recreate", Change{Recreate: true})
	}
}

// append adds changes at the end: they start from the template after all other changes.
func (d *drawer) append(what string, changes ...Change) {
	for i := range changes {
		changes[i].After = time.Duration(1+d.pick(60, fmt.Sprint(what, i))) * 100 * time.Millisecond
		d.c.Changes = append(d.c.Changes, changes[i])
	}
}

// complete adds delays of kubelets and crashes of containers.
func (w widening) complete(c *Case) {
	one := func(what string, of ...time.Duration) time.Duration { return of[w.pick(len(of), what)] }
	if w.late {
		c.Notice = one("notice", 0, time.Second, 3*time.Second)
		c.Kill = one("kill", 0, 0, time.Second, 2*time.Second)
		c.Report = one("report", 0, 500*time.Millisecond, 2*time.Second)
	}
	if w.cpu > 0 {
		c.Resize = one("resize", 0, 0, time.Second)
	}
	if !w.crashes {
		return
	}
	c.Crash = one("crash", 0, 0, 3*time.Second, 7*time.Second)
	if u := c.Spec.UpdateStrategy.Type; u == v1alpha1.InPlaceIfPossible || u == v1alpha1.InPlaceOnly {
		c.CrashOnChange = one("crash on change", 0, 500*time.Millisecond, 500*time.Millisecond, time.Second)
		c.Notice = max(c.Notice, 2*c.CrashOnChange) // the container is restarted from the old spec
	}
}
