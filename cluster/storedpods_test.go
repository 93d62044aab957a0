package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestPodsOfComponents: the components of a cluster in memory read pods from the store, those of one with a data directory with one watch of the server,
// which is in its audit log.
func TestPodsOfComponents(t *testing.T) {
	for name, requested := range map[string]bool{"memory": false, "data directory": true} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "audit.log")
			o := cluster.Options{
				Nodes: 1, Controllers: []string{"stage", "scheduler", "serviceaccount-controller"}, AuditLogFile: log,
				AuditPolicyFile: write(t, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [ResponseStarted, ResponseComplete]\nrules: [{level: Metadata, verbs: [list, watch], resources: [{resources: [pods]}]}]\n"),
			}
			if requested {
				o.DataDir = t.TempDir()
			}
			startCluster(t, o)
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, `"verb":"watch"`) && !strings.Contains(line, "fieldSelector") {
					got++
				}
			}
			if (got > 0) != requested {
				t.Errorf("%d watches of all pods, requested: %t:\n%s", got, requested, text)
			}
		})
	}
}
