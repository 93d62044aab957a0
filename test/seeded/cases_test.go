package seeded_test

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/seeded"
)

// within is the time that the controllers have after the last fault.
const within = 10 * time.Minute

// bug is a seeded bug: a plan that reaches it, the invariant that it violates, and what the user does.
type bug struct {
	plan     []string
	violates string
	// tolerated are further plans that the correct sibling must pass: an earlier version of it did not.
	tolerated [][]string
	// except are the kinds of faults that the correct sibling does not tolerate either, and need not: a generated name is no
	// protection against a late create, and another user's delete is no fault of a controller that never replaces a member.
	except []fault.Kind
	// leaders: two replicas with leader election.
	leaders bool
	test    func(w *simtest.World)
}

// start returns the test of a bug, or of its correct sibling.
func (b bug) start(name string, fixed bool) func(*simtest.World) {
	return func(w *simtest.World) {
		if b.leaders {
			w.ManagerReplicas("seeded", 2, seeded.Setup(name, fixed))
		} else {
			w.Manager("seeded", seeded.Setup(name, fixed))
		}
		w.AllowDifferentOutcomes()
		// Where a bug needs an object that is created again, the user of its test does that. Elsewhere, the members of the old
		// object count until they are collected.
		w.Except(fault.Of(fault.KindRecreate))
		w.Except(b.excluded()...)
		b.test(w)
	}
}

// excluded returns the faults that the searches for a bug do not inject.
func (b bug) excluded() (all []fault.Fault) {
	for _, k := range b.except {
		all = append(all, fault.Of(k))
	}
	if b.leaders { // a fault at a lease is one of client-go's election; pauses suffice to change the leader
		for _, k := range fault.Kinds(fault.Legal) {
			if k != fault.KindPause {
				all = append(all, fault.Fault{Kind: k, Resource: "leases.coordination.k8s.io"})
			}
		}
	}
	return all
}

// deployment is what the user creates.
func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "db"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "db:1"}}},
			},
		},
	}
}

// create creates a Deployment of two members, and requires that it has them at the end.
func create(always ...invariant.Invariant) func(*simtest.World) {
	return func(w *simtest.World) {
		w.Always(always...)
		w.Eventually(within, atLeast(2))
		w.Create(deployment(2))
	}
}

// setImage changes the image of a Deployment.
func setImage(w *simtest.World, d *appsv1.Deployment, image string) {
	w.Patch(d, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"`+image+`"}]}}}}`)
}

// upgrade creates a Deployment and changes its image to db:2.
func upgrade(w *simtest.World) {
	d := deployment(2)
	w.Create(d)
	w.Settle()
	setImage(w, d, "db:2")
}

// remove creates a Deployment and deletes it after five seconds, or when the controller has finished.
func remove(settle bool, eventually invariant.Invariant) func(*simtest.World) {
	return func(w *simtest.World) {
		w.Eventually(within, eventually)
		w.Create(deployment(2))
		if settle {
			w.Settle()
		} else {
			w.Advance(5 * time.Second)
		}
		w.Delete(deployment(2))
	}
}

var (
	noLateWrite = []fault.Kind{fault.KindDeposedWrite}
	noDelete    = []fault.Kind{fault.KindDelete}
)

// bugs are the seeded bugs. The actor of all faults is "seeded".
var bugs = map[string]bug{
	"lost-create": {
		plan:     []string{"lost-answer actor=seeded verb=create resource=configmaps nth=1", "lag actor=seeded resource=configmaps nth=1 for=40s"},
		violates: "at most 2 members", except: noLateWrite, test: create(atMost(2)),
	},
	"cleared-expectations": {
		plan:     []string{"error actor=seeded verb=create resource=configmaps nth=2", "lag actor=seeded resource=configmaps nth=1 for=40s"},
		violates: "at most 2 members", except: noLateWrite, test: create(atMost(2)),
	},
	"generated-repair": {
		plan: []string{
			"delete actor=seeded verb=create resource=configmaps nth=2", "lost-answer actor=seeded verb=create resource=configmaps nth=3",
			"lag actor=seeded resource=configmaps nth=4 for=40s",
		},
		violates: "at most 2 members", except: noLateWrite, test: create(atMost(2)),
	},
	"stale-start": {
		plan:     []string{"crash-after actor=seeded verb=create resource=configmaps nth=1", "other-server actor=seeded verb=create resource=configmaps nth=1 for=40s"},
		violates: "at most 2 members", except: noLateWrite, test: create(atMost(2)),
	},
	"missed-expectation": {
		plan:     []string{"relist actor=seeded resource=configmaps nth=1", "delete actor=seeded verb=create resource=configmaps nth=1"},
		violates: "at least 2 members", test: create(),
	},
	"memory-ordinal": {
		plan:     []string{"delete actor=seeded verb=create resource=configmaps nth=2", "crash-before actor=seeded verb=create resource=configmaps nth=3"},
		violates: "no name of a member is used twice",
		test:     func(w *simtest.World) { create(noReuse())(w) },
	},
	"unrecorded-create": {
		plan:     []string{"conflict actor=seeded verb=update resource=deployments.apps nth=1", "crash-after actor=seeded verb=create resource=configmaps nth=1"},
		violates: "at most 2 members", test: create(atMost(2)),
	},
	"alternative-name": {
		plan:     []string{"lost-answer actor=seeded verb=create resource=configmaps nth=1", "lag actor=seeded resource=configmaps nth=1 for=40s"},
		violates: "at most 2 members", test: create(atMost(2)),
	},
	"early-finalizer": {
		plan:     []string{"error actor=seeded verb=delete resource=configmaps nth=1", "crash-after actor=seeded verb=update resource=deployments.apps nth=2"},
		violates: "configmaps db-outside does not exist", except: noLateWrite, test: remove(true, absent("configmaps", "db-outside")),
	},
	"late-finalizer": {
		plan:     []string{"conflict actor=seeded verb=update resource=deployments.apps nth=1", "late-request actor=seeded verb=update resource=deployments.apps nth=2 for=20s"},
		violates: "configmaps db-outside does not exist", except: noLateWrite, test: remove(false, absent("configmaps", "db-outside")),
	},
	"delete-by-name": {
		plan:     []string{"lost-answer actor=seeded verb=delete resource=configmaps nth=1", "lag actor=seeded resource=configmaps object=default/db-0 nth=2 for=40s"},
		violates: "no member of the present Deployment is removed", except: append(noDelete, noLateWrite...),
		test: func(w *simtest.World) {
			w.Always(kept("no member of the present Deployment is removed", ofPresent))
			w.Eventually(within, atLeast(2))
			w.Create(deployment(2))
			w.Settle()
			w.Delete(deployment(2))
			w.Create(deployment(2))
		},
	},
	"cached-cleanup": {
		plan:     []string{"lost-answer actor=seeded verb=create resource=configmaps nth=1", "lag actor=seeded resource=configmaps nth=1 for=40s"},
		violates: "at most 0 members", except: noLateWrite, test: remove(false, atMost(0)),
	},
	"unobserved-owner": {
		plan:     []string{"relist actor=seeded resource=deployments.apps object=default/db nth=1 for=40s"},
		violates: "the data belongs to the present Deployment",
		tolerated: [][]string{
			{"finalizer actor=seeded verb=create resource=configmaps object=default/db-data nth=1 for=40s"},
			{"delete actor=seeded verb=create resource=configmaps object=default/db-data nth=2", "relist actor=seeded resource=configmaps object=default/db-data nth=3"},
		},
		test: func(w *simtest.World) {
			w.Eventually(within, presentData)
			w.Create(deployment(2))
			w.Settle()
			w.Delete(deployment(2))
			w.Advance(time.Second)
			w.Create(deployment(2))
		},
	},
	"observed-generation": {
		plan: []string{
			"finalizer actor=seeded verb=update resource=configmaps object=default/db-1 nth=1 for=30s",
			"relist actor=seeded resource=deployments.apps object=default/db nth=4 for=40s",
		},
		violates: "2 members have the image db:3",
		test: func(w *simtest.World) {
			w.Eventually(within, haveImage(2, "db:3"))
			d := deployment(2)
			w.Create(d)
			w.Settle()
			setImage(w, d, "db:2")
			w.Settle()
			setImage(w, d, "db:3")
		},
	},
	"double-count": {
		plan: []string{
			"lost-answer actor=seeded verb=update resource=deployments.apps nth=2",
			"lag actor=seeded resource=configmaps object=default/done-0 nth=2 for=40s",
		},
		except:   []fault.Kind{fault.KindRecreate}, // the new Deployment has no count, and the members are counted already
		violates: "each finished member is counted once",
		test: func(w *simtest.World) {
			w.Always(counted(false))
			w.Eventually(within, counted(true))
			w.Create(deployment(2))
			for _, name := range []string{"done-0", "done-1"} {
				w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Name: name, Labels: map[string]string{seeded.MemberOf: "db"}, Finalizers: []string{seeded.Finalizer},
				}})
			}
		},
	},
	"next-victim": {
		plan:     []string{"lost-answer actor=seeded verb=delete resource=configmaps nth=1", "lag actor=seeded resource=configmaps object=default/db-2 nth=2 for=40s"},
		violates: "once true, stays true: at least 2 members", except: noDelete,
		test: func(w *simtest.World) {
			w.Except(fault.Fault{Kind: fault.KindEdit, Target: "deployments.apps/default/db"}) // which scales the Deployment to 1 for a moment
			w.Always(invariant.Stays(atLeast(2)))
			w.Eventually(within, atMost(2))
			d := deployment(3)
			w.Create(d)
			w.Settle()
			w.Patch(d, types.MergePatchType, `{"spec":{"replicas":2}}`)
		},
	},
	"switch-over": {
		plan: []string{"delete actor=seeded verb=create resource=secrets nth=1", "lag actor=seeded resource=secrets nth=2 for=40s"},
		tolerated: [][]string{{
			"delete actor=seeded verb=create resource=secrets object=default/db-serving nth=1", "relist actor=seeded resource=secrets object=default/db-serving nth=1",
		}},
		violates: "the old object is removed only if the new one exists",
		test: func(w *simtest.World) {
			w.Always(served())
			w.Eventually(within, absent("configmaps", "db-serving"))
			upgrade(w)
		},
	},
	"stale-leader": {
		plan: []string{
			"lag actor=seeded/1 resource=deployments.apps object=default/db nth=1 for=40s",
			"pause actor=seeded/0 verb=update resource=configmaps nth=2 for=1m",
		},
		violates: "no member gets an older image again", leaders: true,
		test: func(w *simtest.World) {
			w.Always(notReverted())
			w.Eventually(within, haveImage(2, "db:2"))
			upgrade(w)
		},
	},
	"late-delete": {
		plan:     []string{"deposed-write actor=seeded verb=delete resource=configmaps nth=1 for=20s"},
		violates: "no member with the new image is removed", except: noDelete,
		test: func(w *simtest.World) {
			w.Always(kept("no member with the new image is removed", hasImage("db:2")))
			w.Eventually(within, haveImage(2, "db:2"))
			upgrade(w)
		},
	},
	"migration": {
		plan:     []string{"error actor=seeded verb=create resource=configmaps nth=1", "crash-after actor=seeded verb=patch resource=deployments.apps nth=1"},
		violates: "at least 2 members", except: noDelete, test: create(),
	},
	"rotated-secret": {
		plan:     []string{"conflict actor=seeded verb=update resource=configmaps nth=1", "crash-after actor=seeded verb=patch resource=deployments.apps nth=1"},
		violates: "Secret and configuration have the new token", except: noDelete,
		test: func(w *simtest.World) {
			w.Eventually(within, sameToken)
			d := deployment(2)
			w.Create(d)
			w.Settle()
			w.Patch(d, types.MergePatchType, `{"metadata":{"annotations":{"rotate":"one"}}}`)
		},
	},
	"given-up": {
		plan: []string{
			"error actor=seeded verb=create resource=configmaps nth=1", "error actor=seeded verb=create resource=configmaps nth=2",
			"error actor=seeded verb=create resource=configmaps nth=3",
		},
		violates: "at least 2 members", test: create(),
	},
	"lost-timer": {
		plan:     []string{"quota actor=seeded verb=create resource=configmaps nth=1", "crash-after actor=seeded verb=patch resource=deployments.apps nth=1"},
		violates: "at least 2 members", test: create(),
	},
	"repair-error": {
		plan:     []string{"delete actor=seeded verb=create resource=configmaps nth=1", "error actor=seeded verb=create resource=configmaps nth=4"},
		violates: "at least 2 members", test: create(),
	},
	"recreated-secret": {
		plan:     []string{"relist actor=seeded resource=secrets nth=2"},
		violates: "the Secret is marked",
		except:   []fault.Kind{fault.KindFinalizer}, // the user could not create the Secret again
		test: func(w *simtest.World) {
			w.Eventually(within, marked)
			password := func() *corev1.Secret {
				return &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Name: "db-password", Labels: map[string]string{seeded.MemberOf: "db"}},
					Data:       map[string][]byte{"password": []byte("secret")},
				}
			}
			w.Create(password())
			w.Create(deployment(2))
			w.Settle()
			w.Delete(password())
			w.Create(password())
		},
	},
	"replaced-twice": {
		plan: []string{"finalizer actor=seeded verb=create resource=configmaps nth=1 for=30s", "delete actor=seeded verb=update resource=configmaps nth=2"},
		tolerated: [][]string{{
			"delete actor=seeded verb=create resource=configmaps object=default/db-0 nth=1", "relist actor=seeded resource=configmaps object=default/db-0 nth=1",
			"delete actor=seeded verb=create resource=configmaps object=default/db-1 nth=1",
		}},
		violates: "at most 2 members", except: noLateWrite, test: create(atMost(2)),
	},
	"wide": {
		plan:     []string{"relist actor=seeded resource=pods nth=1", "delete actor=seeded verb=create resource=pods nth=1"},
		violates: "2 pods",
		test: func(w *simtest.World) {
			w.Eventually(within, pods(2))
			w.Create(deployment(2))
		},
	},
}
