package scenario_test

import (
	"fmt"

	"github.com/rehearse-k8s/rehearse/scenario"
)

// Read reports everything that is wrong with a scenario, each with its line and field.
func ExampleRead() {
	_, err := scenario.Read("web.yaml", []byte(`apiVersion: rehearse-k8s.github.io/v1alpha1
kind: Scenario
metadata:
  name: web
spec:
  clients:
  - name: web
    command: [./web, "--kubeconfig={{kubeconfig}}"]
  steps:
  - wait:
      oracle: Ready
      with: {owner: {kind: ReplicaSet, name: web}}
`), nil)
	fmt.Println(err)
	// Output:
	// web.yaml:12: spec.steps[0].wait.with.count: is missing: the number of pods
}

// A scenario that is built in can be read, and says which of its clients needs a command.
func ExampleReadBuiltin() {
	data, err := scenario.ReadBuiltin("job")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := scenario.Read("job.yaml", data, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Name, "needs a command for", s.NeedsCommand())
	fmt.Println("first step:", s.Steps[0])
	// Output:
	// job needs a command for job
	// first step: create Job default/pi
}
