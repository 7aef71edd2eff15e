//go:build !node

// What tests need beside the API server when no node runs pods: a few controllers, and Kubeflow's spark-operator.
//
// All of kube-controller-manager would take a third more time to compile. The controllers are its own; only what starts
// them is here. The garbage collector of pods is left out on purpose: tests play the nodes, and it would delete the pods
// of nodes that the API server does not know.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/kubeflow/spark-operator/v2/cmd/operator/controller"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// As kube-controller-manager has it.
const syncPeriod = 30 * time.Second

func init() {
	components["controllers"] = newControllersCommand
	components["spark-operator"] = func() *cobra.Command {
		command := &cobra.Command{Use: "spark-operator"}
		command.AddCommand(controller.NewCommand())
		return command
	}
}

func newControllersCommand() *cobra.Command {
	var kubeconfig, rootCA string
	command := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers of namespaces, service accounts, owner references and aggregated roles",
		RunE: func(*cobra.Command, []string) error {
			return runControllers(apiserver.SetupSignalContext(), kubeconfig, rootCA)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "whose rights they use")
	command.Flags().StringVar(&rootCA, "root-ca-file", "", "what to publish to all namespaces")
	return command
}

func runControllers(ctx context.Context, kubeconfig, rootCAFile string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // unlimited: nobody else uses this API server
	rootCA, err := os.ReadFile(rootCAFile)
	if err != nil {
		return err
	}
	client, metadataClient, err := clients(config)
	if err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	core := shared.Core().V1()
	accounts, err := serviceaccount.NewServiceAccountsController(
		klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), client,
		serviceaccount.DefaultServiceAccountsControllerOptions(),
	)
	if err != nil {
		return fmt.Errorf("service accounts: %w", err)
	}
	publisher, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, rootCA)
	if err != nil {
		return fmt.Errorf("root certificates: %w", err)
	}
	namespaces := namespace.NewNamespaceController(
		ctx, client, metadataClient, client.Discovery().ServerPreferredNamespacedResources, core.Namespaces(),
		5*time.Minute, v1.FinalizerKubernetes,
	)
	roles := clusterroleaggregation.NewClusterRoleAggregation(shared.Rbac().V1().ClusterRoles(), client.RbacV1())
	started := make(chan struct{})
	all := informerfactory.NewInformerFactory(shared, metadatainformer.NewSharedInformerFactory(metadataClient, 0))
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	garbage, err := garbagecollector.NewGarbageCollector(
		ctx, client, metadataClient, mapper, garbagecollector.DefaultIgnoredResources(), all, started,
	)
	if err != nil {
		return fmt.Errorf("owner references: %w", err)
	}

	all.Start(ctx.Done())
	close(started)
	go accounts.Run(ctx, 1)
	go publisher.Run(ctx, 1)
	go namespaces.Run(ctx, 10)
	go roles.Run(ctx, 5)
	go garbage.Run(ctx, 20, syncPeriod)
	garbage.Sync(ctx, client.Discovery(), syncPeriod)
	return nil
}

func clients(config *rest.Config) (kubernetes.Interface, metadata.Interface, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	metadataClient, err := metadata.NewForConfig(config)
	return client, metadataClient, err
}
