package naivestages_test

// The stages of the scenarios. In each, the stages follow one another and no state repeats.

const head = `
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
`

const gone = head + `
metadata: {name: gone}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: .metadata.finalizers, operator: DoesNotExist}
  delay: {durationMilliseconds: 2000}
  next: {delete: true}
`

const prepareThenFinish = head + `
metadata: {name: prepare}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.labels.prepared, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
  steps:
  - patch: {type: merge, root: metadata, template: "labels: {prepared: 'yes'}"}
  - patch: {type: merge, subresource: status, root: status, template: "phase: Running"}
  immediateNextStage: true
` + head + `
metadata: {name: finish}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Running]}
  delay: {durationMilliseconds: 5000}
  next: {statusTemplate: "phase: Succeeded"}
`

const createThenReady = head + `
metadata: {name: create}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.podIP, operator: DoesNotExist}
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
  delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 5000}
  steps:
  - patch: {type: merge, root: metadata, template: "labels: {created: 'yes'}"}
  - patch: {type: merge, subresource: status, root: status, template: "{phase: Pending, podIP: 10.0.0.9, podIPs: [{ip: 10.0.0.9}]}"}
` + head + `
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.podIP, operator: Exists}
    - {key: .status.phase, operator: In, values: [Pending]}
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
  delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 5000}
  next: {statusTemplate: "{phase: Running, message: ran}"}
`

const expire = head + `
metadata: {name: expire}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {expire: "yes"}
  delay: {durationMilliseconds: 20000}
  next: {delete: true}
`

const finishLater = head + `
metadata: {name: finish}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Pending]}
  delay: {durationMilliseconds: 20000}
  next: {statusTemplate: "phase: Succeeded"}
`

const markFirst = head + `
metadata: {name: mark}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {gen: one}
    matchExpressions:
    - {key: .status.message, operator: DoesNotExist}
  next: {statusTemplate: "message: first"}
`

const readyAtOnce = head + `
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Pending]}
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
  next: {statusTemplate: "phase: Running"}
`

const twoLabels = head + `
metadata: {name: a}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {step: a}
    matchExpressions:
    - {key: .status.message, operator: DoesNotExist}
  next: {statusTemplate: "message: a"}
` + head + `
metadata: {name: b}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {step: b}
    matchExpressions:
    - {key: .status.message, operator: NotIn, values: [b]}
  delay: {durationMilliseconds: 5000}
  next: {statusTemplate: "message: b"}
`
