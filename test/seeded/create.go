package seeded

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controllers of this file create members, and may create one too many or one too few.

// generated creates members with generated names. It counts those in its cache and those that it created and does not see
// yet. After a start, and after a create without an answer, it counts with a live list, if countLive is set; after a start only
// without trustStart. After a create that the API rejected it still knows what it created, if keepCreates is set. With
// fixedFirst the first members have fixed names.
func generated(mgr ctrl.Manager, countLive, keepCreates, fixedFirst, trustStart bool) error {
	const pause = time.Second // after a create that failed: its event may arrive
	created, unsure := creates{}, !trustStart
	var next time.Time
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if left := time.Until(next); left > 0 {
			return ctrl.Result{RequeueAfter: left}, nil
		}
		if fixedFirst && int(d.Status.Replicas) < replicas(d) {
			if err := createFirst(ctx, r, d, created); err != nil {
				return ctrl.Result{}, err
			}
			fixedFirst = false
			return created.again(), nil
		}
		have, err := members(ctx, r.Client, d)
		if err != nil {
			return ctrl.Result{}, err
		}
		if unsure && countLive {
			if have, err = members(ctx, r.live, d); err != nil {
				return ctrl.Result{}, err
			}
			for _, m := range have {
				created[m.Name] = time.Now() // until the cache shows it
			}
			have = nil
		}
		unsure = false
		created.observe(have)
		if err := created.check(ctx, r, d.Namespace); err != nil {
			return ctrl.Result{}, err
		}
		for n := len(have) + len(created); n < replicas(d); n++ {
			m := newMember(d, "")
			m.GenerateName = d.Name + "-"
			if err := r.Create(ctx, m); err != nil {
				if unsure = !isAnswered(err); !unsure && !keepCreates {
					clear(created)
				}
				next = time.Now().Add(pause)
				return ctrl.Result{RequeueAfter: pause}, nil
			}
			created[m.Name] = time.Now()
		}
		return created.again(), nil
	})
}

// lostCreate counts its members again after a create whose answer was lost, and counts them in its cache, which does not
// have the created one yet. So it creates another one. It needs a lost answer and a late event. The fix counts with a live
// list. Modelled on the creates with generateName of ReplicaSets and Jobs, where expectations cover only creates that were
// answered, and on instaclustr/cassandra-operator#402.
func lostCreate(mgr ctrl.Manager, fixed bool) error { return generated(mgr, fixed, true, false, false) }

// clearedExpectations resets what it knows of its creates when one of a batch is rejected, "to start from a clean state",
// while the event of the one before is late. The fix keeps what succeeded. It needs a rejected create and a late event.
// Modelled on controllers that call DeleteExpectations after an error (kubernetes/kubernetes#130103, elastic/cloud-on-k8s#5249).
func clearedExpectations(mgr ctrl.Manager, fixed bool) error {
	return generated(mgr, true, fixed, false, false)
}

// generatedRepair creates its first members with fixed names, which may be repeated. Later, to replace a member that was
// deleted, it has the bug of lostCreate. So it needs three faults: a delete, a lost answer and a late event.
func generatedRepair(mgr ctrl.Manager, fixed bool) error {
	return generated(mgr, fixed, true, true, false)
}

// staleStart counts its members in its cache after a start. The first list of a cache may be older than what the previous
// instance wrote, if its request permits any state. So it creates a member again. The fix counts with a live list. It
// needs a crash after a create, and a server whose watch cache is behind. Modelled on kubernetes/kubernetes#59848.
func staleStart(mgr ctrl.Manager, fixed bool) error { return generated(mgr, true, true, false, !fixed) }

// createFirst creates members with fixed names, and reports their number in the status.
func createFirst(ctx context.Context, r *reconciler, d *appsv1.Deployment, created creates) error {
	for n := range replicas(d) {
		name := memberName(d, n)
		if err := ignoreExists(r.Create(ctx, newMember(d, name))); err != nil {
			return err
		}
		created[name] = time.Now()
	}
	d.Status.Replicas = *d.Spec.Replicas
	return r.Status().Update(ctx, d)
}

// memoryOrdinal gives each member a new ordinal, because a member's identity must not be used twice. It counts the ordinals
// in memory, and after a restart continues after the number of members that it finds. The fix records the next ordinal in
// the Deployment before the create. It needs a delete of the last member and a crash before the next create. Modelled on
// the identities of pravega/zookeeper-operator, and on controllers whose counters are lost on a crash.
func memoryOrdinal(mgr ctrl.Manager, fixed bool) error {
	const key = "next-ordinal"
	next, created := -1, creates{}
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		have, err := members(ctx, r.Client, d)
		if err != nil {
			return ctrl.Result{}, err
		}
		if next < 0 {
			next = len(have)
		}
		created.observe(have)
		if err := created.check(ctx, r, d.Namespace); err != nil {
			return ctrl.Result{}, err
		}
		for n := len(have) + len(created); n < replicas(d); n++ {
			if fixed {
				next, _ = strconv.Atoi(d.Annotations[key])
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, key, strconv.Itoa(next+1))
				if err := r.Update(ctx, d); err != nil {
					return ctrl.Result{}, err
				}
			}
			name := memberName(d, next)
			next++
			if err := r.Create(ctx, newMember(d, name)); err != nil {
				return ctrl.Result{}, err
			}
			created[name] = time.Now()
		}
		return created.again(), nil
	})
}

// unrecordedCreate records the name of a member in the Deployment and then creates it, so that a repeated create is
// harmless. If recording meets a conflict, it creates the member first, "to lose no time", and records the name afterwards:
// a crash in between leaves a member that nothing knows. The fix returns the conflict. It needs a conflict and a crash.
// Modelled on rabbitmq/cluster-operator#782 and percona K8SPSMDB-578: two writes that must be atomic.
func unrecordedCreate(mgr ctrl.Manager, fixed bool) error {
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		for n := range replicas(d) {
			key := fmt.Sprintf("member-%d", n)
			name := d.Annotations[key]
			if name == "" {
				name = fmt.Sprintf("%s-%d-%d", d.Name, n, time.Now().UnixMilli()%1e6)
				before := d.DeepCopy()
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, key, name)
				err := r.Update(ctx, d)
				if apierrors.IsConflict(err) && !fixed {
					if err := r.Create(ctx, newMember(d, name)); err != nil {
						return ctrl.Result{}, err
					}
					err = r.Patch(ctx, d, client.MergeFrom(before))
				}
				if err != nil {
					return ctrl.Result{}, err
				}
			}
			if err := ignoreExists(r.Create(ctx, newMember(d, name))); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, nil
	})
}

// alternativeName creates a member under a second name if the first one is taken by an object of another owner. Its cache
// says whose object it is: an own member whose create had no answer, and whose event is late, looks like another's. The
// fix asks the API. It needs a lost answer and a late event. Modelled on the collision count of
// upstream's Deployments, which reads the other object, and on elastic/cloud-on-k8s#5274.
func alternativeName(mgr ctrl.Manager, fixed bool) error {
	created := creates{}
	return build(mgr, func(ctx context.Context, r *reconciler, d *appsv1.Deployment) (ctrl.Result, error) {
		have, err := members(ctx, r.Client, d)
		if err != nil {
			return ctrl.Result{}, err
		}
		created.observe(have)
		if err := created.check(ctx, r, d.Namespace); err != nil {
			return ctrl.Result{}, err
		}
		names := slices.Collect(maps.Keys(created))
		for _, m := range have {
			names = append(names, m.Name)
		}
		for n := range replicas(d) {
			name := memberName(d, n)
			if slices.ContainsFunc(names, func(have string) bool { return have == name || strings.HasPrefix(have, name+"-") }) {
				continue
			}
			err := r.Create(ctx, newMember(d, name))
			if apierrors.IsAlreadyExists(err) {
				from := client.Reader(r.Client)
				if fixed {
					from = r.live
				}
				m, readErr := read(ctx, from, d.Namespace, name)
				if readErr != nil {
					return ctrl.Result{}, readErr
				}
				if err = nil; m == nil || m.Labels[MemberOf] != d.Name {
					name += "-1"
					err = r.Create(ctx, newMember(d, name))
				}
			}
			if err != nil {
				return ctrl.Result{}, err
			}
			created[name] = time.Now()
		}
		return created.again(), nil
	})
}
