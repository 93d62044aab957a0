package seeded

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// MemberOf is the label of an object that belongs to a Deployment; its value is the Deployment's name.
	MemberOf = "member-of"
	// OwnerUID is the label of an object that belongs to one incarnation of a Deployment.
	OwnerUID = "owner-uid"
	// Finalizer is the finalizer of the controllers that clean up.
	Finalizer = "seeded.rehearse.example/cleanup"
)

// reconciler has what the controllers share: the client with its cache, and a reader without one.
type reconciler struct {
	client.Client
	live client.Reader
}

// reconcileFunc is one reconcile of a Deployment. If the Deployment does not exist, it has a name and no UID.
type reconcileFunc func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error)

// build adds a controller to a manager. It reconciles Deployments that exist and are not being deleted, and watches
// ConfigMaps by their label.
func build(mgr ctrl.Manager, do reconcileFunc) error {
	return buildAll(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if d.UID == "" || d.DeletionTimestamp != nil {
			return ctrl.Result{}, nil
		}
		return do(ctx, r, d)
	}, watchMembers)
}

// watchMembers makes a controller watch ConfigMaps.
func watchMembers(b *builder.Builder) {
	b.Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(ownerOf))
}

// buildAll is like build, but also reconciles Deployments that are being deleted or do not exist; change adds watches and
// options.
func buildAll(mgr ctrl.Manager, do reconcileFunc, change ...func(*builder.Builder)) error {
	r := &reconciler{mgr.GetClient(), mgr.GetAPIReader()}
	b := ctrl.NewControllerManagedBy(mgr).Named("seeded").For(&appsv1.Deployment{})
	for _, c := range change {
		c(b)
	}
	return b.Complete(reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		var d appsv1.Deployment
		err := r.Get(ctx, request.NamespacedName, &d)
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		if err != nil {
			d = appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
		}
		return do(ctx, r, &d)
	}))
}

// warm starts informers when the manager starts, so that a replica has a cache before it is elected.
func warm(mgr ctrl.Manager, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf returns the Deployment that an object belongs to.
func ownerOf(_ context.Context, o client.Object) []reconcile.Request {
	owner := o.GetLabels()[MemberOf]
	if owner == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: owner}}}
}

// newMember returns a member of a Deployment.
func newMember(d *appsv1.Deployment, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name, Labels: map[string]string{MemberOf: d.Name, OwnerUID: string(d.UID)}},
		Data:       map[string]string{"image": image(d)},
	}
}

func memberName(d *appsv1.Deployment, n int) string { return fmt.Sprintf("%s-%d", d.Name, n) }

func replicas(d *appsv1.Deployment) int { return int(*d.Spec.Replicas) }

func image(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }

// members lists the members of a Deployment, sorted by name: a cache has no order.
func members(ctx context.Context, from client.Reader, d *appsv1.Deployment) ([]corev1.ConfigMap, error) {
	var list corev1.ConfigMapList
	err := from.List(ctx, &list, client.InNamespace(d.Namespace), client.MatchingLabels{MemberOf: d.Name})
	slices.SortFunc(list.Items, func(a, b corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, err
}

// read reads one ConfigMap; it returns nil if it does not exist.
func read(ctx context.Context, from client.Reader, namespace, name string) (*corev1.ConfigMap, error) {
	var m corev1.ConfigMap
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &m, err
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// isAnswered reports whether the API server answered a request that failed: a rejected request had no effect, and a
// lost connection leaves that open.
func isAnswered(err error) bool { return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown }

// recheck is the time after which a controller asks the API about a create that its cache does not show.
const recheck = 10 * time.Second

// afterCreate is the result of a reconcile that created something: another one follows, because no event shows that the object existed if it is
// deleted while the watch is down.
var afterCreate = ctrl.Result{RequeueAfter: recheck}

// creates are the names of created objects that the cache has not shown yet, with the time of the create.
type creates map[string]time.Time

// observe removes the objects that the cache shows.
func (c creates) observe(have []corev1.ConfigMap) {
	for _, m := range have {
		delete(c, m.Name)
	}
}

// check asks the API about the creates that are older than recheck, and removes the objects that do not exist: they were
// deleted before the cache showed them.
func (c creates) check(ctx context.Context, r *reconciler, namespace string) error {
	for name, at := range c {
		if time.Since(at) < recheck {
			continue
		}
		m, err := read(ctx, r.live, namespace, name)
		if err != nil {
			return err
		}
		if c[name] = time.Now(); m == nil {
			delete(c, name)
		}
	}
	return nil
}

// again requests another reconcile if there are creates to check.
func (c creates) again() ctrl.Result {
	if len(c) > 0 {
		return ctrl.Result{RequeueAfter: recheck}
	}
	return ctrl.Result{}
}
