package simulate

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/jobs"
)

func (w *world) job(name, managedBy string) {
	w.t.Helper()
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](2),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				NodeName: "node-0", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "x"}},
			}},
		},
	}
	if managedBy != "" {
		j.Spec.ManagedBy = &managedBy
	}
	if _, err := w.client.BatchV1().Jobs("default").Create(w.t.Context(), j, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) awaitComplete(name string) {
	w.t.Helper()
	w.await("Job "+name+" is Complete", func() bool {
		j, err := w.client.BatchV1().Jobs("default").Get(w.t.Context(), name, metav1.GetOptions{})
		return err == nil && j.Status.CompletionTime != nil
	})
}

// Jobs that name our controller are managed by it, with the manifests' rights; others are not. One replica
// does the work, and when it exits, another one continues.
func TestJobs(t *testing.T) {
	w := newWorld(t, 1)
	w.replica(w.asServiceAccount(stageRole), nil)
	account := w.asServiceAccount(jobRole)
	start := func() *replica {
		return w.replica(account, func(o *Options) {
			o.Stage, o.Jobs = nil, &jobs.Options{}
			o.Election = shortElection()
			o.Election.Namespace = system
		})
	}
	first := start()
	if line := first.hears("Managing"); !strings.Contains(line, "Jobs with spec.managedBy rehearse-k8s.github.io/job-controller on ") {
		t.Error(line)
	}
	first.hears("This replica leads")
	w.job("ours", jobs.ManagedBy)
	w.job("upstreams", "")
	w.job("others", "example.com/else")
	w.awaitComplete("ours")
	for _, name := range []string{"upstreams", "others"} {
		if j, err := w.client.BatchV1().Jobs("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil || j.Status.StartTime != nil {
			t.Errorf("Job %s was touched: %+v, %v", name, j.Status, err)
		}
	}
	second := start()
	second.hears("Managing")
	first.end(nil)
	second.hears("This replica leads")
	w.job("later", jobs.ManagedBy)
	w.awaitComplete("later")
	w.await("an Event reports it", func() bool {
		events, err := w.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=later,reason=Completed"})
		return err == nil && len(events.Items) == 1 && events.Items[0].Source.Component == "job-controller"
	})
	second.end(nil)
	for _, r := range []*replica{first, second} {
		if log := r.log.String(); strings.Contains(log, "forbidden") {
			t.Error(log)
		}
	}
}

// The Job controller also works without stages, and with all Jobs if the flag says so.
func TestAllJobsAlone(t *testing.T) {
	w := newWorld(t, 1)
	stages := w.replica(w.admin, nil)
	alone := w.replica(w.admin, func(o *Options) { o.Stage, o.Jobs = nil, &jobs.Options{All: true} })
	if line := alone.hears("ready in"); !strings.HasPrefix(line, "Managing all Jobs on ") {
		t.Error(line)
	}
	w.job("any", "")
	w.awaitComplete("any")
	alone.end(nil)
	stages.end(nil)
}
