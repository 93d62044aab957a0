package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// setLoad is a CloneSet that is scaled up and updated.
type setLoad struct {
	load
	updates                  int
	maxUnavailable, maxSurge string
}

func cloneSetCommand(binary *string, out *figures) *cobra.Command {
	l := setLoad{load: load{out: out}}
	c := &cobra.Command{
		Use:   "cloneset [-- UP-FLAGS]",
		Short: "Scale a CloneSet up, update it in place, and update it with new pods",
		Long: `A CloneSet of --pods pods until all are available; then one of --updates pods, which is updated with another
image in place, and then with another environment, for which its pods are recreated. Pods name their node, so that
the scheduler is not measured. Writes are counted by the API server, the simulated kubelets' included.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.args = args
			return l.run(cmd.Context(), binary)
		},
	}
	l.addFlags(c, 100, 10000, 16)
	c.Flags().IntVar(&l.updates, "updates", 5000, "the number of pods of the CloneSet that is updated")
	c.Flags().StringVar(&l.maxUnavailable, "max-unavailable", "20%", "maxUnavailable of the updates")
	c.Flags().StringVar(&l.maxSurge, "max-surge", "0", "maxSurge of the update with new pods")
	return c
}

func (l setLoad) run(ctx context.Context, binary *string) error {
	if l.pods > 0 {
		if err := l.alone(ctx, binary, l.pods); err != nil {
			return err
		}
	}
	if l.updates == 0 {
		return nil
	}
	const container = `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"%s}]}}}}`
	return l.alone(ctx, binary, l.updates, fmt.Sprintf(container, ""), fmt.Sprintf(container, `,"env":[{"name":"A","value":"B"}]`))
}

// alone measures a set of this many pods in its own cluster, then its updates.
func (l setLoad) alone(ctx context.Context, binary *string, pods int, updates ...string) error {
	s, client, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	config, err := s.config()
	if err != nil {
		return err
	}
	all, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	sets := all.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.Resource)).Namespace("default")
	err = l.phase(ctx, client, s, sets, fmt.Sprintf("%d pods created", pods), pods, func() (string, error) {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(l.set(pods))
		if err == nil {
			_, err = sets.Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
		}
		return "", err
	})
	for i, patch := range updates {
		if err != nil {
			return err
		}
		what := []string{"updated in place", "updated with new pods"}[i]
		err = l.phase(ctx, client, s, sets, fmt.Sprintf("%d pods %s, maxUnavailable %s, maxSurge %s", pods, what, l.maxUnavailable, l.maxSurge), pods, func() (string, error) {
			now, err := sets.Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			was, _, err := unstructured.NestedString(now.Object, "status", "updateRevision")
			if err == nil {
				_, err = sets.Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			}
			return was, err
		})
	}
	return err
}

func (l setLoad) set(pods int) *v1alpha1.CloneSet {
	labels := map[string]string{"app": "web"}
	set := &v1alpha1.CloneSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
	}
	set.Spec.Replicas, set.Spec.Selector = ptr.To(int32(pods)), &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}
	set.Spec.UpdateStrategy = v1alpha1.CloneSetUpdateStrategy{
		Type: v1alpha1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.Parse(l.maxUnavailable)), MaxSurge: ptr.To(intstr.Parse(l.maxSurge)),
	}
	return set
}

// phase changes the set and waits until all its pods are updated and available.
func (l setLoad) phase(ctx context.Context, client kubernetes.Interface, s *server, sets dynamic.ResourceInterface, what string, pods int, do func() (was string, err error)) error {
	written, err := requests(ctx, client)
	if err != nil {
		return err
	}
	list, err := sets.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return sets.Watch(ctx, o) },
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	before, start := s.use(), time.Now()
	was, err := do()
	if err != nil {
		return err
	}
	for done := false; !done; {
		select {
		case e := <-w.ResultChan():
			if done, err = rolledOut(e.Object, was, pods); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	took, after := time.Since(start), s.use()
	now, err := requests(ctx, client)
	if err != nil {
		return err
	}
	l.out.add(what, "%.1f s, %.0f pods/s; CPU a pod %.2f ms, server %s", took.Seconds(), float64(pods)/took.Seconds(), ms((after.cpu-before.cpu)/time.Duration(pods)), mb(after.memory))
	var writes []string
	for key, n := range now {
		if n -= written[key]; n*100 > pods && !strings.HasPrefix(key, "GET") && !strings.HasPrefix(key, "LIST") && !strings.HasPrefix(key, "WATCH") {
			writes = append(writes, fmt.Sprintf("%s %.3f", key, float64(n)/float64(pods)))
		}
	}
	slices.Sort(writes)
	l.out.add("writes a pod", "%s", strings.Join(writes, ", "))
	return nil
}

// rolledOut reports whether all pods of a set are updated and available.
func rolledOut(o runtime.Object, was string, pods int) (bool, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return false, nil
	}
	var set v1alpha1.CloneSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &set); err != nil {
		return false, err
	}
	is := set.Status
	return is.UpdateRevision != was && is.ObservedGeneration == set.Generation && int(is.UpdatedAvailableReplicas) == pods && int(is.Replicas) == pods, nil
}
