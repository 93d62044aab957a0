package corpus

import (
	"context"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Defects are the controllers by defect. Each has one, and its comment says which write is harmful or missing.
var Defects = map[string]func(ctrl.Manager) error{
	"counts generated names in its cache":    controller("stale", countInCache),
	"counts creates in memory":               countInMemory,
	"records a name after the create":        controller("recorded", recordName),
	"returns nil after an error":             unwatched("silent", dropError),
	"remembers a create before it succeeded": rememberTooEarly,
	"ignores changes of labels":              filterLabels,
	"does not watch its parts":               unwatched("blind", ensureAndReport),
	"updates without a revision":             controller("overwrites", overwrite),
	"increments a counter":                   controller("increments", increment),
	"returns nil on conflict, unwatched":     unwatched("conflict", nilOnConflict),
	"does not watch what it cleans up":       cleanupUnwatched,
	"replaces a claim after an error":        controller("claims", claimData(true)),
	"repeats an invalid write":               recordFailure(false),
	"keeps an old condition":                 controller("conditions", setConditions(true)),
	"deletes by name":                        controller("retires", retire(true)),
	"records by name":                        controller("teams", recordTeam(true)),
	"clears the revision":                    controller("notes", noteImage(true)),
	"leaves goroutines behind":               monitor(true),
}

// unwatched is like controller, but changes of parts cause no reconcile: a part that another user deletes is never
// created again, and after a conflict about a part nothing causes the next reconcile.
func unwatched(name string, do step) func(ctrl.Manager) error {
	return filtered(name, do, false)
}

// filterLabels does not reconcile a Deployment whose labels alone changed, although it waits for one. (A change of its
// annotations increases the generation of a Deployment.) The write that is missing is the create of the first part.
func filterLabels(mgr ctrl.Manager) error {
	return filtered("filters", func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if d.Labels["approved"] == "" {
			return ctrl.Result{}, nil
		}
		return ensureAndReport(ctx, r, d)
	}, true, builder.WithPredicates(predicate.GenerationChangedPredicate{}))(mgr)
}

func filtered(name string, do step, owns bool, of ...builder.ForOption) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error {
		r := &reconciler{mgr.GetClient(), mgr.GetAPIReader()}
		b := ctrl.NewControllerManagedBy(mgr).Named(name).For(&appsv1.Deployment{}, of...)
		if owns {
			b = b.Owns(&corev1.ConfigMap{})
		}
		return b.Complete(reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			var d appsv1.Deployment
			if err := r.Get(ctx, request.NamespacedName, &d); err != nil || d.DeletionTimestamp != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			return do(ctx, r, &d)
		}))
	}
}

// createGenerated creates a part with a generated name.
func (r *reconciler) createGenerated(ctx context.Context, d *appsv1.Deployment) (*corev1.ConfigMap, error) {
	part, err := r.newPart(d, 0)
	if err != nil {
		return nil, err
	}
	part.Name, part.GenerateName = "", d.Name+"-"
	return part, r.Create(ctx, part)
}

// updateParts gives all parts in the cache the image of the Deployment, and returns their number.
func (r *reconciler) updateParts(ctx context.Context, d *appsv1.Deployment) (int, error) {
	var parts corev1.ConfigMapList
	if err := r.List(ctx, &parts, client.InNamespace(d.Namespace), client.MatchingLabels{"part-of": d.Name}); err != nil {
		return 0, err
	}
	slices.SortFunc(parts.Items, func(a, b corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) }) // a cache has no order
	for i := range parts.Items {
		if part := &parts.Items[i]; part.Data["image"] != image(d) {
			part.Data = map[string]string{"image": image(d)}
			if err := r.Update(ctx, part); err != nil {
				return 0, err
			}
		}
	}
	return len(parts.Items), nil
}

// countInCache creates parts with generated names until its cache has enough of them. Harmful: the create of a third
// part, while the event of an earlier one is late.
func countInCache(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	n, err := r.updateParts(ctx, d)
	for ; err == nil && n < int(*d.Spec.Replicas); n++ {
		_, err = r.createGenerated(ctx, d)
	}
	return ctrl.Result{}, err
}

// countInMemory counts the creates that it knows to have succeeded. Harmful: the create of a third part, after an
// earlier create took effect and its answer was lost.
func countInMemory(mgr ctrl.Manager) error {
	var mu sync.Mutex
	created := 0
	return controller("memory", func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		n, err := r.updateParts(ctx, d)
		for created = max(created, n); err == nil && created < int(*d.Spec.Replicas); created++ {
			if _, err = r.createGenerated(ctx, d); err != nil {
				break
			}
		}
		return ctrl.Result{}, err
	})(mgr)
}

// recordName creates two parts with generated names and records each in an annotation of the owner. Harmful: the
// create of a third part, after the process ended between a create and its record.
func recordName(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, err := r.updateParts(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	for _, key := range []string{"first", "second"} {
		if d.Annotations[key] != "" {
			continue
		}
		part, err := r.createGenerated(ctx, d)
		if err != nil {
			return ctrl.Result{}, err
		}
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, key, part.Name)
		if err := r.Patch(ctx, d, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// dropError reads everything from the API, and returns no error of a write. Missing: the write that failed.
func dropError(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	_, _ = liveReads(ctx, r, d)
	return ctrl.Result{}, nil
}

// rememberTooEarly notes that it created a part before the API server has answered. Missing: the create of that part.
func rememberTooEarly(mgr ctrl.Manager) error {
	var mu sync.Mutex
	created := map[string]bool{}
	return controller("early", func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		for n := range int(*d.Spec.Replicas) {
			part, err := r.newPart(d, n)
			if err != nil {
				return ctrl.Result{}, err
			}
			if created[part.Name] {
				continue
			}
			created[part.Name] = true
			if err := r.Create(ctx, part); err != nil && !apierrors.IsAlreadyExists(err) {
				return ctrl.Result{}, err
			}
		}
		_, err := r.updateParts(ctx, d)
		return ctrl.Result{}, err
	})(mgr)
}

// overwrite writes the whole Deployment of its cache without its revision. Harmful: the update that replaces the
// user's image by the one in the cache.
func overwrite(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	if err := r.ensureParts(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	var first corev1.ConfigMap
	if err := r.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: partName(d, 0)}, &first); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // its event causes another reconcile
	}
	if d.Annotations["first"] == first.Data["image"] {
		return ctrl.Result{}, nil
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, "first", first.Data["image"])
	d.ResourceVersion = ""
	return ctrl.Result{}, r.Update(ctx, d)
}

// noteImage writes the image of its parts into an annotation of the Deployment, which it reads live. With a revision, a
// conflict makes it read again. Without one, the update is harmful: another user may write between the read and the
// update, which removes what that user wrote.
func noteImage(anyRevision bool) step {
	return func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if err := r.ensureParts(ctx, d); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, client.IgnoreNotFound(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil || d.Annotations["image"] == image(d) {
				return err
			}
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, "image", image(d))
			if anyRevision {
				d.ResourceVersion = ""
			}
			return r.Update(ctx, d)
		}))
	}
}

// monitor has a goroutine for each Deployment, in place of one that observes something outside of the cluster, and
// starts it again for each change of the Deployment. Harmful: it does not end the earlier one.
func monitor(forgets bool) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error {
		type running struct {
			uid        types.UID
			generation int64
			end        context.CancelFunc
		}
		var mu sync.Mutex
		monitors := map[client.ObjectKey]running{}
		return controller("monitors", func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			key := client.ObjectKeyFromObject(d)
			if last := monitors[key]; last.uid != d.UID || last.generation != d.Generation {
				if last.end != nil && !forgets {
					last.end()
				}
				own, end := context.WithCancel(ctx)
				monitors[key] = running{d.UID, d.Generation, end}
				go func() { <-own.Done() }()
			}
			return ensureAndReport(ctx, r, d)
		})(mgr)
	}
}

// increment counts the parts that it creates in an annotation, after each create. Missing: the second patch, because
// a part whose create took effect without an answer is not counted.
func increment(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	for n := range int(*d.Spec.Replicas) {
		part, err := r.newPart(d, n)
		if err != nil {
			return ctrl.Result{}, err
		}
		err = r.Create(ctx, part)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "created", d.Annotations["created"]+"I")
		if err := r.Patch(ctx, d, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	_, err := r.updateParts(ctx, d)
	return ctrl.Result{}, err
}

// cleanupUnwatched deletes an object outside of the Deployment before it removes its finalizer, and does not watch that
// object. Missing: its delete, after a create that a terminated process had sent takes effect after the cleanup.
func cleanupUnwatched(mgr ctrl.Manager) error {
	return cleanUp(&reconciler{mgr.GetClient(), mgr.GetAPIReader()}, ctrl.NewControllerManagedBy(mgr))
}
