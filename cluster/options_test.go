package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

func TestInvalidOptions(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"name":                {Options{Name: "My_Cluster"}, `cluster name "My_Cluster"`},
		"nodes":               {Options{Nodes: -1}, "--nodes -1"},
		"two places":          {Options{DataDir: "d", EtcdServers: []string{"http://x"}}, "--data-dir and --etcd-servers"},
		"certificate, no key": {Options{EtcdServers: []string{"https://x"}, EtcdCertFile: "c"}, "--etcd-certfile and --etcd-keyfile"},
		"TLS, no servers":     {Options{EtcdCAFile: "c"}, "require --etcd-servers"},
		"address":             {Options{BindAddress: "localhost"}, `--bind-address "localhost"`},
		"port":                {Options{Port: 70000}, "--port 70000"},
		"controller":          {Options{Controllers: []string{"*", "-jobb"}}, `--controllers: unknown controller "jobb"; nearest names: job, `},
		"stages":              {Options{StageFiles: []string{"no-such.yaml"}}, "no-such.yaml"},
		"built-in stages":     {Options{StageFiles: []string{"builtin:no-such"}}, "no-such"},
		"feature gate":        {Options{FeatureGates: []string{"NoSuchGate=true"}}, "NoSuchGate"},
		"runtime config":      {Options{RuntimeConfig: []string{"no-such/v1=maybe"}}, "no-such/v1"},
		"admission plugin":    {Options{AdmissionPlugins: []string{"NoSuchPlugin"}}, "NoSuchPlugin"},
		"service CIDR":        {Options{ServiceCIDR: "10.96.0.0/33"}, "10.96.0.0/33"},
		"audit log alone":     {Options{AuditLogFile: "log"}, "--audit-policy and --audit-log"},
		"audit policy":        {Options{AuditPolicyFile: "no-such.yaml", AuditLogFile: "log"}, "no-such.yaml"},
		"scheduler config":    {Options{SchedulerConfigFile: "no-such.yaml"}, "--scheduler-config: open no-such.yaml"},
		"no scheduler":        {Options{SchedulerConfigFile: "s.yaml", Controllers: []string{"stage"}}, "--controllers does not run the scheduler"},
		"leases":              {Options{NodeLeaseDuration: 1}, "--node-lease-duration 1ns"},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.StateDir = t.TempDir()
			_, err := Start(t.Context(), c.options)
			var usage *UsageError
			if !errors.As(err, &usage) {
				t.Fatalf("error %v, want a UsageError", err)
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, c.want)
			}
		})
	}
}

func TestControllersAreSelectedAsUpstream(t *testing.T) {
	for _, c := range []struct {
		list                   []string
		stage, scheduler, jobs bool
		upstream               []string
	}{
		{[]string{"*"}, true, true, true, []string{"-job-controller", "*"}},
		{[]string{"*", "-stage"}, false, true, true, []string{"-job-controller", "*"}},
		{[]string{"*", "-scheduler", "-job-controller"}, true, false, false, []string{"-job-controller", "*"}},
		{[]string{"*", "-job"}, true, true, false, []string{"-job-controller", "*"}},
		{[]string{"stage"}, true, false, false, nil},
		{[]string{"stage", "job"}, true, false, true, nil},
		{[]string{"deployment-controller"}, false, false, false, []string{"deployment-controller"}},
		{[]string{"-stage", "stage", "*"}, false, true, true, []string{"-job-controller", "*"}}, // the first match counts
		{[]string{"*", "upstream-job"}, true, true, false, []string{"job-controller", "*"}},
		{[]string{"job", "upstream-job"}, false, false, false, []string{"job-controller"}},
		{[]string{"*", "-upstream-job"}, true, true, true, []string{"-job-controller", "*"}},
	} {
		if got := picked(c.list, StageController); got != c.stage {
			t.Errorf("%v: stage %v, want %v", c.list, got, c.stage)
		}
		if got := picked(c.list, Scheduler); got != c.scheduler {
			t.Errorf("%v: scheduler %v, want %v", c.list, got, c.scheduler)
		}
		if got := jobsPicked(c.list); got != c.jobs {
			t.Errorf("%v: our Job controller %v, want %v", c.list, got, c.jobs)
		}
		if got := upstreamOnly(c.list); !slices.Equal(got, c.upstream) {
			t.Errorf("%v: upstream sees %v, want %v", c.list, got, c.upstream)
		}
		if err := CheckControllers(c.list); err != nil {
			t.Errorf("%v: %v", c.list, err)
		}
	}
	if err := CheckControllers([]string{"job", "garbagecollector"}); err != nil {
		t.Errorf("upstream's short names: %v", err)
	}
	if picked([]string{"stage"}, names.ServiceAccountTokenController) {
		t.Error("a list without * picks what it does not name")
	}
}
