package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

// timeout is how long a case waits for an expected state; while is how long it checks that an unexpected one
// does not occur.
const (
	timeout = time.Minute
	while   = 2 * time.Second
)

// notifier notifies all waiting cases of every event.
type notifier struct {
	mu   sync.Mutex
	next chan struct{}
}

func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.next)
	n.next = make(chan struct{})
}

// more returns a channel that is closed at the next event.
func (n *notifier) more() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next
}

// scene is one case: a namespace with one CloneSet, called clone.
type scene struct {
	*testing.T
	space string
}

// begin starts a case, which runs concurrently with the others.
func begin(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "case-"}}
	if err := api.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, space: n.Name}
	s.until("pods may be created", func() error {
		return caches.Get(t.Context(), client.ObjectKey{Namespace: s.space, Name: "default"}, &corev1.ServiceAccount{})
	})
	return s
}

// view is the state of a case at one moment.
type view struct {
	set    *v1beta1.CloneSet
	pods   []corev1.Pod // those that are not terminating, by age and name
	going  []corev1.Pod
	claims []corev1.PersistentVolumeClaim
}

func (s *scene) view() (v view, err error) {
	v.set = &v1beta1.CloneSet{}
	if err := caches.Get(context.Background(), client.ObjectKey{Namespace: s.space, Name: "clone"}, v.set); err != nil {
		return v, err
	}
	pods, claims := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}
	if err := caches.List(context.Background(), pods, client.InNamespace(s.space)); err != nil {
		return v, err
	}
	if err := caches.List(context.Background(), claims, client.InNamespace(s.space)); err != nil {
		return v, err
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			v.going = append(v.going, p)
		} else {
			v.pods = append(v.pods, p)
		}
	}
	slices.SortFunc(v.pods, func(a, b corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	v.claims = claims.Items
	return v, nil
}

// until waits for events until f returns no error.
func (s *scene) until(what string, f func() error) {
	s.Helper()
	deadline := time.After(timeout)
	for {
		more := happened.more()
		err := f()
		if err == nil {
			return
		}
		select {
		case <-more:
		case <-deadline:
			s.Fatalf("%s: not in %s: %v\n%s", what, timeout, err, s.picture())
		}
	}
}

// see waits until the state satisfies f, and returns it. By then the controller has observed the current spec.
func (s *scene) see(what string, f func(view) error) view {
	s.Helper()
	var seen view
	s.until(what, func() (err error) {
		if seen, err = s.view(); err != nil {
			return err
		}
		if o, g := seen.set.Status.ObservedGeneration, seen.set.Generation; o != g {
			return fmt.Errorf("generation %d is not observed, %d is", g, o)
		}
		if err := seen.agrees(); err != nil {
			return err
		}
		return f(seen)
	})
	return seen
}

// agrees returns an error if the set and the pods are not of about the same moment: they arrive by two
// watches, either of which may be late.
func (v view) agrees() error {
	updated, up := 0, 0
	for i := range v.pods {
		p := &v.pods[i]
		if p.Labels[kruise.LabelRevision] == v.set.Status.UpdateRevision {
			updated++
		}
		if ready(p) && !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == kruise.ConditionInPlaceUpdateReady && c.Status == corev1.ConditionFalse
		}) {
			up++
		}
	}
	if s := &v.set.Status; int(s.Replicas) != len(v.pods) || int(s.UpdatedReplicas) != updated || int(s.ReadyReplicas) != up {
		return fmt.Errorf("the status counts %d pods, %d updated, %d ready; there are %d, %d, %d", s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, len(v.pods), updated, up)
	}
	return nil
}

// stays checks at every event of a period that the state satisfies f.
func (s *scene) stays(what string, f func(view) error) {
	s.Helper()
	over := time.After(while)
	for {
		more := happened.more()
		v, err := s.view()
		if err == nil {
			err = f(v)
		}
		if err != nil {
			s.Fatalf("%s: it does not stay: %v\n%s", what, err, s.picture())
		}
		select {
		case <-more:
		case <-over:
			return
		}
	}
}

// picture returns the state as text, for messages of failures.
func (s *scene) picture() string {
	v, err := s.view()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	status, _ := json.Marshal(v.set.Status)
	fmt.Fprintf(&b, "status %s\n", status)
	for _, p := range slices.Concat(v.pods, v.going) {
		fmt.Fprintf(&b, "pod %s %s %s, state %s, ready %t, going %t", p.Name, p.Labels[kruise.LabelRevision], p.Status.Phase, state(&p), ready(&p), p.DeletionTimestamp != nil)
		for _, c := range p.Status.ContainerStatuses {
			fmt.Fprintf(&b, "; %s %s ready %t restarts %d", c.Name, c.Image, c.Ready, c.RestartCount)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// make creates the CloneSet: with defaults, one container called main, and pods that start as fast as
// possible.
func (s *scene) make(replicas int32, change ...func(*v1beta1.CloneSet)) {
	s.Helper()
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: "clone"}}
	set.Spec.Replicas = &replicas
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "clone"}}
	set.Spec.Template.Labels = map[string]string{"app": "clone"}
	set.Spec.Template.Annotations = map[string]string{}
	for _, stage := range []string{"pod-create", "pod-ready", "pod-container-renewed", "pod-image-pull-failed", "pod-delete"} {
		set.Spec.Template.Annotations[stage+".stage.kwok.x-k8s.io/delay"] = "0s"
	}
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(int64(1))
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "main:1"}}
	for _, f := range change {
		f(set)
	}
	if err := api.Create(s.Context(), set); err != nil {
		s.Fatal(err)
	}
}

// edit reads the CloneSet, changes it and writes it.
func (s *scene) edit(change ...func(*v1beta1.CloneSet)) {
	s.Helper()
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		set := &v1beta1.CloneSet{}
		if err := api.Get(s.Context(), client.ObjectKey{Namespace: s.space, Name: "clone"}, set); err != nil {
			return err
		}
		for _, f := range change {
			f(set)
		}
		return api.Update(s.Context(), set)
	}); err != nil {
		s.Fatal(err)
	}
	s.caughtUp()
}

// caughtUp waits until the cache shows the set as the API has it, so that a case sees a state after its own
// write.
func (s *scene) caughtUp() {
	s.Helper()
	live := &v1beta1.CloneSet{}
	if err := api.Get(s.Context(), client.ObjectKey{Namespace: s.space, Name: "clone"}, live); err != nil {
		s.Fatal(err)
	}
	s.until("the cache shows what was written", func() error {
		v, err := s.view()
		if err == nil && v.set.Generation < live.Generation {
			err = errors.New("the cache is behind")
		}
		return err
	})
}

// editPod changes a pod.
func (s *scene) editPod(name string, change func(*corev1.Pod)) {
	s.Helper()
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		p := &corev1.Pod{}
		if err := api.Get(s.Context(), client.ObjectKey{Namespace: s.space, Name: name}, p); err != nil {
			return err
		}
		change(p)
		return api.Update(s.Context(), p)
	}); err != nil {
		s.Fatal(err)
	}
}

// remove deletes pods, as a user does.
func (s *scene) remove(names ...string) {
	s.Helper()
	for _, name := range names {
		if err := api.Delete(s.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: name}}); err != nil {
			s.Fatal(err)
		}
	}
	s.until("the cache shows that pods were deleted", func() error {
		v, err := s.view()
		if err != nil {
			return err
		}
		for i := range v.pods {
			if slices.Contains(names, v.pods[i].Name) {
				live := &corev1.Pod{}
				if err := api.Get(context.Background(), client.ObjectKeyFromObject(&v.pods[i]), live); err == nil && live.UID == v.pods[i].UID && live.DeletionTimestamp == nil {
					continue // a new pod with the same name
				}
				return fmt.Errorf("pod %s still exists", v.pods[i].Name)
			}
		}
		return nil
	})
}
