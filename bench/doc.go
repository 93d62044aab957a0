// Command bench runs whole systems and prints figures: how long `rehearse up`
// takes, how many pods a second become Ready and go, what a large cluster holds
// in memory and uses when idle, whether churn leaves memory level.
//
// It also makes simtest's long runs, as `go test` of the examples with many seeds.
//
// It builds the rehearse binary, starts it as a child process, and speaks to it
// as any outside client does: over TLS, with the kubeconfig that `up` writes.
// Figures are printed, never asserted; docs/benchmarks.md keeps them with the
// machine they were seen on.
//
// It is not a test and not part of the product; package benchmarks in
// *_test.go files measure single functions.
//
//	go run ./bench startup            # up to the first answered `get ns`
//	go run ./bench pods               # 1,000 nodes, 10,000 pods by an outside client
//	go run ./bench pods --no-engine   # the floor: the same creates, nothing running
//	go run ./bench pods --bare        # the floor of being Ready: nothing but the API and the writes
//	go run ./bench pods --scheduler   # placed by the real scheduler
//	go run ./bench hold --pods 100000 # idle memory and CPU
//	go run ./bench churn              # create, update, delete for a while, --rate 15 for an even load
//	go run ./bench stage              # the stage engine alone, in a process of its own; --kwok PATH for KWOK's too
//	go run ./bench leases             # that engine idle, with the leases of 5,000 nodes; --bare for the requests alone
//	go run ./bench job                # one big Job and many small ones, our Job controller and upstream's
//	go run ./bench simtest            # the examples: what is found, what stays clean, how fast
package main
