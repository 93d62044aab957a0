package seeded

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controllers of this file handle an error, and are wrong when something else happens afterwards.

// patchAnnotation sets an annotation of a Deployment; an empty value removes it.
func patchAnnotation(ctx context.Context, r *reconciler, d *appsv1.Deployment, key, value string) error {
	before := d.DeepCopy()
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, key, value)
	if value == "" {
		delete(d.Annotations, key)
	}
	return r.Patch(ctx, d, client.MergeFrom(before))
}

// migration creates the members once and records that it did. A create that fails is retried in the background, so that it
// does not delay the others; a crash loses it, and the record says that there is nothing to do. The fix records only complete
// migrations. It needs a rejected create and a crash. Modelled on percona K8SPSMDB-579 and konpyutaika/nifikop#49.
func migration(mgr ctrl.Manager, fixed bool) error {
	const key, retry = "migrated", 10 * time.Second
	left := map[string]bool{}
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		var failed error
		for n := range replicas(d) {
			name := memberName(d, n)
			if d.Annotations[key] != "" && !left[name] {
				continue
			}
			err := ignoreExists(r.Create(ctx, newMember(d, name)))
			left[name] = err != nil
			failed = errors.Join(failed, err)
		}
		if failed != nil && (fixed || d.Annotations[key] != "") {
			return ctrl.Result{}, failed
		}
		if d.Annotations[key] != "" {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{RequeueAfter: retry}, patchAnnotation(ctx, r, d, key, "yes")
	})
}

// rotatedSecret writes a new token to a Secret and to the configuration that uses it. If the configuration meets a
// conflict, it is retried in the background, and the rotation is recorded as complete; a crash loses the retry, and the
// two differ for ever. The fix returns the conflict. It needs a conflict and a crash. Modelled on percona K8SPXC-897 and
// datastax K8SSAND-1023: two objects that must change together.
func rotatedSecret(mgr ctrl.Manager, fixed bool) error {
	const retry = time.Second
	left := false
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		meta := metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-token", Labels: map[string]string{MemberOf: d.Name}}
		token := d.Annotations["rotate"]
		secret, config := &corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta}
		for _, o := range []client.Object{secret, config} {
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(o), o); apierrors.IsNotFound(err) {
				err = r.Create(ctx, o)
				if err != nil {
					return ctrl.Result{}, err
				}
			} else if err != nil {
				return ctrl.Result{}, err
			}
		}
		if d.Annotations["rotated"] == token && !left {
			return ctrl.Result{}, nil
		}
		if string(secret.Data["token"]) != token {
			secret.Data = map[string][]byte{"token": []byte(token)}
			if err := r.Update(ctx, secret); err != nil {
				return ctrl.Result{}, err
			}
		}
		config.Data = map[string]string{"token": token}
		err := r.Update(ctx, config)
		if left = apierrors.IsConflict(err) && !fixed; err != nil && !left {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: retry}, patchAnnotation(ctx, r, d, "rotated", token)
	})
}

// givenUp forgets a Deployment after three failures, and waits for its next event. The fix retries without a limit. It
// needs three rejected creates. Modelled on the limit of retries that many controllers copied from client-go's example of a
// workqueue.
func givenUp(mgr ctrl.Manager, fixed bool) error {
	const limit = 3
	failures := 0
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		err := updateMembers(ctx, r, d)
		switch {
		case err == nil:
			failures = 0
		case !fixed && !apierrors.IsConflict(err):
			if failures++; failures >= limit {
				failures, err = 0, nil
			}
		}
		return ctrl.Result{}, err
	})
}

// lostTimer records that a create was forbidden, and retries after half a minute. It has the time in memory: after a crash
// it finds the record and waits until the user removes it. The fix retries if it knows no time. It needs a create over the
// quota and a crash. Modelled on operators with a state "failed" that only their own timer leaves (yugabyte-operator#39).
func lostTimer(mgr ctrl.Manager, fixed bool) error {
	const key, pause = "blocked", 30 * time.Second
	until := map[string]time.Time{}
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if d.Annotations[key] != "" {
			at, known := until[d.Name]
			if !known && !fixed {
				return ctrl.Result{}, nil
			}
			if left := time.Until(at); left > 0 {
				return ctrl.Result{RequeueAfter: left}, nil
			}
			if err := patchAnnotation(ctx, r, d, key, ""); err != nil {
				return ctrl.Result{}, err
			}
			delete(until, d.Name)
		}
		err := updateMembers(ctx, r, d)
		if !apierrors.IsForbidden(err) {
			return ctrl.Result{}, err
		}
		until[d.Name] = time.Now().Add(pause)
		return ctrl.Result{RequeueAfter: pause}, patchAnnotation(ctx, r, d, key, "quota")
	})
}

// repairError returns the errors of its first creates, but not those of the creates that replace a deleted member: these,
// it says, the next event repeats. There is none. The fix returns both. It needs a delete, and an error of the create that
// follows. Modelled on percona K8SPXC-918 and on error paths of repairs, which tests rarely reach.
func repairError(mgr ctrl.Manager, fixed bool) error {
	created := map[string]bool{}
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		for n := range replicas(d) {
			name := memberName(d, n)
			m, err := read(ctx, r.Client, d.Namespace, name)
			if err != nil {
				return ctrl.Result{}, err
			}
			if m != nil {
				continue
			}
			err = ignoreExists(r.Create(ctx, newMember(d, name)))
			if err != nil && (fixed || !created[name]) {
				return ctrl.Result{}, err
			}
			created[name] = true
		}
		return ctrl.Result{}, nil
	})
}
