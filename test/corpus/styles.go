package corpus

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1apply "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Styles are the controllers by style, each as a function that adds it to a manager.
var Styles = map[string]func(ctrl.Manager) error{
	"server-side apply":               controller("apply", applyParts),
	"merge patch of the status":       controller("merge", mergeStatus),
	"nil on conflict":                 controller("nil", nilOnConflict),
	"heartbeat":                       controller("heartbeat", heartbeat),
	"generateName with adoption":      controller("generate", generateNames),
	"cleanup by finalizer":            cleanup,
	"two controllers, one slow":       twoControllers,
	"status with an unsorted list":    controller("unsorted", unsortedStatus),
	"periodic resync":                 controller("resync", resync),
	"live reads":                      controller("live", liveReads),
	"expectations with a live check":  withExpectations,
	"retries after a policy's denial": controller("denied", ensureAndReport),
	"keeps its claim":                 controller("claims", claimData(false)),
	"gives up an invalid write":       recordFailure(true),
	"replaces a condition":            controller("conditions", setConditions(false)),
	"deletes with a UID":              controller("retires", retire(false)),
	"records with a revision":         controller("teams", recordTeam(false)),
	"retries on conflict":             controller("notes", noteImage(false)),
	"ends its goroutines":             monitor(false),
}

// ensureAndReport is the usual style: parts with fixed names, and a status update with a revision. Every error,
// such as a policy's 403, is returned and retried with backoff.
func ensureAndReport(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	if err := r.ensureParts(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.reportReplicas(ctx, d, *d.Spec.Replicas)
}

// applyParts applies parts and status with a field manager, and reads nothing of what it wrote.
func applyParts(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	for n := range int(*d.Spec.Replicas) {
		part := corev1apply.ConfigMap(partName(d, n), d.Namespace).WithLabels(map[string]string{"part-of": d.Name}).
			WithData(map[string]string{"image": image(d)}).
			WithOwnerReferences(metav1apply.OwnerReference().WithAPIVersion("apps/v1").WithKind("Deployment").WithName(d.Name).
				WithUID(d.UID).WithController(true).WithBlockOwnerDeletion(true))
		if err := r.Apply(ctx, part, client.FieldOwner("corpus"), client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.deleteSurplus(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	status := appsv1apply.Deployment(d.Name, d.Namespace).
		WithStatus(appsv1apply.DeploymentStatus().WithReplicas(*d.Spec.Replicas).WithObservedGeneration(d.Generation))
	return ctrl.Result{}, r.Status().Apply(ctx, status, client.FieldOwner("corpus"), client.ForceOwnership)
}

// mergeStatus patches the status without a precondition. The status follows from the spec alone, and a later
// generation is reconciled again.
func mergeStatus(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	if err := r.ensureParts(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	before := d.DeepCopy()
	d.Status.Replicas, d.Status.ObservedGeneration = *d.Spec.Replicas, d.Generation
	return ctrl.Result{}, r.Status().Patch(ctx, d, client.MergeFrom(before))
}

// nilOnConflict returns no error after a conflict: the event of the competing write causes the next reconcile.
func nilOnConflict(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	result, err := ensureAndReport(ctx, r, d)
	if apierrors.IsConflict(err) {
		return ctrl.Result{}, nil
	}
	return result, err
}

// beat is the time between two heartbeats.
const beat = 20 * time.Second

// heartbeat writes the time to a ConfigMap of its own, for ever.
func heartbeat(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	if _, err := ensureAndReport(ctx, r, d); err != nil {
		return ctrl.Result{}, err
	}
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-heartbeat"}}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(own), own)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	last, parseErr := time.Parse(time.RFC3339, own.Data["time"])
	if left := beat - time.Since(last); err == nil && parseErr == nil && left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	own.Data = map[string]string{"time": time.Now().Format(time.RFC3339)}
	if apierrors.IsNotFound(err) {
		err = r.Create(ctx, own)
	} else {
		err = r.Update(ctx, own)
	}
	return ctrl.Result{RequeueAfter: beat}, err
}

// generateNames creates parts with generated names. It counts them with a live list, adopts what has its label
// and no owner, and deletes surplus ones, which a lost answer or a deposed leader may have caused.
func generateNames(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	var parts corev1.ConfigMapList
	if err := r.live.List(ctx, &parts, client.InNamespace(d.Namespace), client.MatchingLabels{"part-of": d.Name}); err != nil {
		return ctrl.Result{}, err
	}
	var own []*corev1.ConfigMap
	for i := range parts.Items {
		part := &parts.Items[i]
		switch owner := metav1.GetControllerOf(part); {
		case part.DeletionTimestamp != nil:
		case owner == nil:
			if err := controllerutil.SetControllerReference(d, part, r.Scheme()); err != nil {
				return ctrl.Result{}, err
			}
			if err := r.Update(ctx, part); err != nil {
				return ctrl.Result{}, err
			}
			own = append(own, part)
		case owner.UID == d.UID:
			own = append(own, part)
		}
	}
	for _, part := range own {
		if part.Data["image"] != image(d) {
			part.Data = map[string]string{"image": image(d)}
			if err := r.Update(ctx, part); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	slices.SortFunc(own, func(a, b *corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	want := int(*d.Spec.Replicas)
	for n := want; n < len(own); n++ {
		if err := r.Delete(ctx, own[n], client.Preconditions{UID: &own[n].UID}); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	if len(own) < want {
		part, err := r.newPart(d, 0)
		if err != nil {
			return ctrl.Result{}, err
		}
		part.Name, part.GenerateName = "", d.Name+"-"
		return ctrl.Result{RequeueAfter: time.Millisecond}, r.Create(ctx, part) // one part in each reconcile
	}
	return ctrl.Result{}, r.reportReplicas(ctx, d, int32(want))
}

// finalizer of the style with a cleanup.
const finalizer = "corpus.rehearse.example/cleanup"

// cleanup creates an object that the garbage collector does not know (in place of one outside the cluster), and
// deletes it before it removes its finalizer. It reads its own objects live. It watches what it deletes: a create that a
// terminated process had sent may take effect after the cleanup, when no event of the Deployment follows any more.
func cleanup(mgr ctrl.Manager) error {
	ownerOf := func(_ context.Context, o client.Object) []reconcile.Request {
		name, ok := strings.CutSuffix(o.GetName(), "-outside")
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	}
	r := &reconciler{mgr.GetClient(), mgr.GetAPIReader()}
	return cleanUp(r, ctrl.NewControllerManagedBy(mgr).Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(ownerOf)))
}

// cleanUp completes a controller of the style with a cleanup.
func cleanUp(r *reconciler, b *builder.Builder) error {
	return b.Named("cleanup").For(&appsv1.Deployment{}).
		Complete(reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			outside := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name + "-outside"}}
			var d appsv1.Deployment
			err := r.live.Get(ctx, request.NamespacedName, &d)
			switch {
			case apierrors.IsNotFound(err):
				// A create that was on its way may have taken effect after the cleanup.
				return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, outside))
			case err != nil:
				return ctrl.Result{}, err
			case d.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(&d, finalizer):
				controllerutil.AddFinalizer(&d, finalizer)
				return ctrl.Result{}, r.Update(ctx, &d)
			case d.DeletionTimestamp == nil:
				return ctrl.Result{}, ignoreExists(r.Create(ctx, outside))
			case controllerutil.ContainsFinalizer(&d, finalizer):
				if err := client.IgnoreNotFound(r.Delete(ctx, outside)); err != nil {
					return ctrl.Result{}, err
				}
				controllerutil.RemoveFinalizer(&d, finalizer)
				return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &d))
			}
			return ctrl.Result{}, nil
		}))
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// twoControllers are two controllers in one process. The second one acts ten seconds after the first.
func twoControllers(mgr ctrl.Manager) error {
	if err := controller("fast", ensureAndReport)(mgr); err != nil {
		return err
	}
	return controller("slow", func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		const delay = 10 * time.Second
		if left := delay - time.Since(d.CreationTimestamp.Time); left > 0 {
			return ctrl.Result{RequeueAfter: left}, nil
		}
		if d.Annotations["slow"] == image(d) {
			return ctrl.Result{}, nil
		}
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "slow", image(d))
		return ctrl.Result{}, r.Patch(ctx, d, client.MergeFrom(before))
	})(mgr)
}

// unsortedStatus reports a condition for each part, in the order in which it observes them.
func unsortedStatus(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	if err := r.ensureParts(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	before := len(d.Status.Conditions)
	d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		n, err := strconv.Atoi(strings.TrimPrefix(string(c.Type), d.Name+"-"))
		return err == nil && n >= int(*d.Spec.Replicas)
	})
	changed := d.Status.ObservedGeneration != d.Generation || len(d.Status.Conditions) != before
	for n := range int(*d.Spec.Replicas) {
		var part corev1.ConfigMap
		name := partName(d, n)
		if err := r.Get(ctx, types.NamespacedName{Namespace: d.Namespace, Name: name}, &part); err != nil {
			continue // its event causes another reconcile
		}
		known := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return string(c.Type) == name })
		if !known {
			changed = true
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentConditionType(name), Status: corev1.ConditionTrue})
		}
	}
	if !changed {
		return ctrl.Result{}, nil
	}
	d.Status.ObservedGeneration = d.Generation
	return ctrl.Result{}, r.Status().Update(ctx, d)
}

// resync writes the time of the last complete check to the owner every 30 seconds.
func resync(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	const every = 30 * time.Second
	if _, err := ensureAndReport(ctx, r, d); err != nil {
		return ctrl.Result{}, err
	}
	last, err := time.Parse(time.RFC3339, d.Annotations["checked"])
	if left := every - time.Since(last); err == nil && left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	before := d.DeepCopy()
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, "checked", time.Now().Format(time.RFC3339))
	return ctrl.Result{RequeueAfter: every}, r.Patch(ctx, d, client.MergeFrom(before))
}

// liveReads reads everything from the API.
func liveReads(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	for n := range int(*d.Spec.Replicas) {
		part, err := r.newPart(d, n)
		if err != nil {
			return ctrl.Result{}, err
		}
		have := &corev1.ConfigMap{}
		err = r.live.Get(ctx, client.ObjectKeyFromObject(part), have)
		switch {
		case apierrors.IsNotFound(err):
			err = r.Create(ctx, part)
		case err == nil && ownedBy(have, d) != nil:
			// The garbage collector will delete the part of an earlier Deployment. No event may say so: after an expired
			// watch, a list shows neither its create nor its delete. So it has to try again.
			err = ownedBy(have, d)
		case err == nil && have.Data["image"] != image(d):
			have.Data = part.Data
			err = r.Update(ctx, have)
		}
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.deleteSurplus(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.reportReplicas(ctx, d, *d.Spec.Replicas)
}

// withExpectations waits until the cache has observed the parts that it created, and asks the API itself if an
// event does not come within ten seconds.
func withExpectations(mgr ctrl.Manager) error {
	const timeout = 10 * time.Second
	var mu sync.Mutex
	expected := map[string]time.Time{} // by the name of a part: when it was created
	return controller("expecting", func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		for n := range int(*d.Spec.Replicas) {
			part, err := r.newPart(d, n)
			if err != nil {
				return ctrl.Result{}, err
			}
			have := &corev1.ConfigMap{}
			err = r.Get(ctx, client.ObjectKeyFromObject(part), have)
			if created, ok := expected[part.Name]; apierrors.IsNotFound(err) && ok {
				if left := timeout - time.Since(created); left > 0 {
					return ctrl.Result{RequeueAfter: left}, nil
				}
				err = r.live.Get(ctx, client.ObjectKeyFromObject(part), have)
			}
			switch {
			case apierrors.IsNotFound(err):
				if err := ignoreExists(r.Create(ctx, part)); err != nil {
					return ctrl.Result{}, err
				}
				expected[part.Name] = time.Now()
				return ctrl.Result{RequeueAfter: timeout}, nil
			case err != nil:
				return ctrl.Result{}, err
			}
			delete(expected, part.Name)
			if have.Data["image"] != image(d) {
				have.Data = part.Data
				if err := r.Update(ctx, have); err != nil {
					return ctrl.Result{}, err
				}
			}
		}
		if err := r.deleteSurplus(ctx, d); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.reportReplicas(ctx, d, *d.Spec.Replicas)
	})(mgr)
}
