// Package naiveclonesets is a controller of CloneSets with deliberate bugs. Its planner is correct
// (that of workload/cloneset); how it observes and writes is not. Each bug is a switch, so that a
// test can show which scenario and which invariant find it.
//
// The switches reproduce kruise's issues 2057 and 2473 (an event filter that omits a field), 1785
// and 1765 (counting by name the events that own writes should cause), 2276 (traffic while an image
// is changed), and two things that Kruise does: it generates random names for pods, so that a
// decision made twice creates two pods, and it deletes claims and pods in two separate writes.
//
// Without a switch the controller is only as careful as these tests need: it does not handle lost
// answers to writes.
package naiveclonesets

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// Switches turn the bugs on.
type Switches struct {
	// ForgetsFinalizers and ForgetsPhase filter events of pods with a filter that omits these
	// fields.
	ForgetsFinalizers, ForgetsPhase bool
	// Expects waits for the events of its own creations and deletions, by name.
	Expects bool
	// Stale decides on caches that do not show its own writes.
	Stale bool
	// Draws generates random names for pods, so that a decision made twice creates two pods.
	Draws bool
	// ImageFirst changes images before it takes the pod out of traffic.
	ImageFirst bool
	// ClaimsFirst deletes the claims of a pod and then the pod, and does not record the decision on
	// the pod.
	ClaimsFirst bool
}

var setsResource = v1alpha1.GroupVersion.WithResource(v1alpha1.Resource)

// controller is one instance of the controller.
type controller struct {
	Switches
	client kubernetes.Interface
	sets   dynamic.NamespaceableResourceInterface
	caches map[string]cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	memory map[cache.ObjectName]*memory
}

// memory records the controller's own writes.
type memory struct {
	// wrote maps a resource to the revision of the newest write, gone contains the deleted pods.
	wrote map[string]string
	gone  map[types.UID]string
	// creates and deletes are the names of pods and claims whose events are expected.
	creates, deletes map[string]bool
	drawn            int
	past             cloneset.Past
}

// Run returns the constructor of a controller with these bugs.
func (s Switches) Run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	sets := dynamicinformer.NewFilteredDynamicInformer(dynamicClient, setsResource, "", 0, cache.Indexers{}, nil).Informer()
	c := &controller{
		Switches: s, client: client, sets: dynamicClient.Resource(setsResource),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		memory: map[cache.ObjectName]*memory{},
		caches: map[string]cache.SharedIndexInformer{
			"clonesets": sets, "pods": factory.Core().V1().Pods().Informer(),
			"persistentvolumeclaims": factory.Core().V1().PersistentVolumeClaims().Informer(),
			"controllerrevisions":    factory.Apps().V1().ControllerRevisions().Informer(),
		},
	}
	for resource, informer := range c.caches {
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { c.seen(resource, obj, "add") },
			UpdateFunc: func(old, obj any) {
				if resource != "pods" || c.relevant(old.(*corev1.Pod), obj.(*corev1.Pod)) {
					c.seen(resource, obj, "update")
				}
			},
			DeleteFunc: func(obj any) { c.seen(resource, obj, "delete") },
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	go sets.Run(ctx.Done())
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), sets.HasSynced)
	for c.work(ctx) {
	}
	return nil
}

// relevant reports whether a change of a pod causes a sync.
func (c *controller) relevant(old, pod *corev1.Pod) bool {
	if !c.ForgetsFinalizers && !c.ForgetsPhase {
		return true
	}
	ready := func(p *corev1.Pod) (all []corev1.ConditionStatus) {
		for _, condition := range p.Status.Conditions {
			all = append(all, condition.Status)
		}
		return all
	}
	same := old.Generation == pod.Generation && slices.Equal(ready(old), ready(pod)) && len(old.Labels) == len(pod.Labels) &&
		old.Labels[kruise.LabelState] == pod.Labels[kruise.LabelState] && (old.DeletionTimestamp == nil) == (pod.DeletionTimestamp == nil)
	if !c.ForgetsFinalizers {
		same = same && slices.Equal(old.Finalizers, pod.Finalizers)
	}
	if !c.ForgetsPhase {
		same = same && old.Status.Phase == pod.Status.Phase
	}
	return !same
}

// seen handles an event and enqueues the set that it belongs to.
func (c *controller) seen(resource string, obj any, event string) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	o, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	if resource == "clonesets" {
		c.queue.Add(cache.MetaObjectToName(o))
		return
	}
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != v1alpha1.Kind {
		return
	}
	key := cache.NewObjectName(o.GetNamespace(), ref.Name)
	if c.Expects {
		c.queue.Add(cache.NewObjectName(event+" "+o.GetName(), key.String())) // only the worker uses the memory
	}
	c.queue.Add(key)
}

func (c *controller) work(ctx context.Context) bool {
	key, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(key)
	if event, name, ok := strings.Cut(key.Namespace, " "); ok {
		c.observe(event, name, key.Name)
		return true
	}
	wake, err := c.sync(ctx, key)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		c.queue.AddRateLimited(key)
	case wake > 0:
		c.queue.Forget(key)
		c.queue.AddAfter(key, wake)
	default:
		c.queue.Forget(key)
	}
	return true
}

// observe removes an event from those that are expected.
func (c *controller) observe(event, name, set string) {
	namespace, set, _ := strings.Cut(set, "/")
	m := c.of(cache.NewObjectName(namespace, set))
	switch event {
	case "add":
		delete(m.creates, name)
	case "delete":
		delete(m.deletes, name)
	}
	c.queue.Add(cache.NewObjectName(namespace, set))
}

func (c *controller) of(key cache.ObjectName) *memory {
	if c.memory[key] == nil {
		c.memory[key] = &memory{wrote: map[string]string{}, gone: map[types.UID]string{}, creates: map[string]bool{}, deletes: map[string]bool{}}
	}
	return c.memory[key]
}

// state returns what the caches show of a set.
func (c *controller) state(set *v1alpha1.CloneSet, m *memory) (cloneset.State, error) {
	s := cloneset.State{Set: set, Digest: cloneset.Digest(&set.Spec.Template), Past: m.past}
	s.Limits = cloneset.Limits{Pods: 500, HookTimeout: 24 * time.Hour}
	for _, resource := range []string{"pods", "persistentvolumeclaims", "controllerrevisions"} {
		for _, obj := range c.caches[resource].GetStore().List() {
			if !metav1.IsControlledBy(obj.(metav1.Object), set) {
				continue
			}
			switch o := obj.(type) {
			case *corev1.Pod:
				s.Pods = append(s.Pods, cloneset.View(o))
			case *corev1.PersistentVolumeClaim:
				s.Claims = append(s.Claims, cloneset.ViewClaim(o))
			case *appsv1.ControllerRevision:
				r, err := cloneset.ReadRevision(o, func(*corev1.PodTemplateSpec) {})
				if err != nil {
					return s, err
				}
				s.Revisions = append(s.Revisions, r)
			}
		}
	}
	slices.SortFunc(s.Pods, func(a, b *cloneset.Pod) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Claims, func(a, b *cloneset.Claim) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

func (c *controller) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	obj, found, err := c.caches["clonesets"].GetStore().GetByKey(key.String())
	if err != nil || !found {
		return 0, err
	}
	set := &v1alpha1.CloneSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.(*unstructured.Unstructured).Object, set); err != nil || set.DeletionTimestamp != nil {
		return 0, err
	}
	m := c.of(key)
	switch {
	case c.Expects && len(m.creates)+len(m.deletes) > 0:
		return 0, nil // the expected events cause the next sync
	case !c.Expects && !c.Stale && c.behind(key, m):
		return time.Second, nil
	}
	s, err := c.state(set, m)
	if err != nil {
		return 0, err
	}
	d := cloneset.Plan(time.Now(), s)
	m.past = d.Past
	if d.Recheck {
		if live, err := c.sets.Namespace(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{}); err != nil || live.GetResourceVersion() != set.ResourceVersion {
			return time.Second, err
		}
	}
	if d.Status != nil {
		if err := c.writeStatus(ctx, set, m, d.Status); err != nil {
			return 0, err
		}
	}
	for i := range d.Actions {
		if err := c.act(ctx, set, m, &d.Actions[i]); err != nil {
			return 0, err
		}
	}
	return d.Wake, nil
}
