// Command bench runs whole systems and prints figures: how long `rehearse up` takes, how many pods
// a second become Ready and are deleted, how much memory a large cluster uses and how much CPU when
// it is idle, and whether memory stays constant under churn.
//
// bench compare measures the same load on upstream's programs, which bench/reference builds: its figures are ratios.
//
// It also runs simtest's long searches, as `go test` of the examples with many seeds.
//
// It builds the rehearse binary, starts it as a child process, and uses it like any client outside
// of the process: over TLS, with the kubeconfig that `up` writes. It prints figures and asserts
// nothing; docs/benchmarks.md records them with the machine that they were measured on.
//
// It is not a test and not part of the product; benchmarks in *_test.go files measure single
// functions.
//
//	go run ./bench all --quick        # every measurement below, small: a table and a plot; without --quick, in full size
//	go run ./bench startup            # up to the first answered `get ns`
//	go run ./bench pods               # 1,000 nodes, 10,000 pods by an outside client
//	go run ./bench pods --no-engine   # the lower bound: the same creates, no controllers
//	go run ./bench pods --bare        # the lower bound for Ready: only the API and the writes
//	go run ./bench pods --scheduler   # placed by the real scheduler
//	go run ./bench compare            # the same, alternating with kube-apiserver, etcd and KWOK: prints ratios
//	go run ./bench builds OLD NEW     # the same load on two builds in turn, in many short rounds
//	go run ./bench hold --pods 100000 # idle memory and CPU
//	go run ./bench sizing             # the constants of the formula in docs/reference/sizing.md
//	go run ./bench watches            # 1,000 watches of 10,000 pods, a watch-list of 100,000 objects: events and ends
//	go run ./bench churn              # create, update, delete for a while, --rate 15 for an even load
//	go run ./bench stage              # the stage engine alone, in a process of its own; --kwok PATH for KWOK's too
//	go run ./bench leases             # that engine idle, with the leases of 5,000 nodes; --bare for the requests alone
//	go run ./bench job                # one big Job and many small ones, our Job controller and upstream's
//	go run ./bench snapshot           # save and restore 10,000 Running pods: seconds and memory
//	go run ./bench replay             # replay 500 changes per second for 20 s: how late each is observed
//	go run ./bench packages           # the benchmarks of the store, the stages and the API server
//	go run ./bench simtest            # the examples: failures found, runs passed, runs a second
package main
