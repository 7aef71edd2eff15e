//go:build node

// What a node that runs pods needs beside the API server, with all controllers.
package main

import (
	"context"

	"github.com/spf13/cobra"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func init() {
	components["kube-controller-manager"] = kcm.NewControllerManagerCommand
	components["kube-proxy"] = kubeproxy.NewProxyCommand
	components["kube-scheduler"] = func() *cobra.Command { return scheduler.NewSchedulerCommand() }
	// It makes a signal context of its own, and panics when it is given one.
	components["kubelet"] = func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }
}
