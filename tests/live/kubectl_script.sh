# What an engineer does with kubectl, in the agent's container. Prints DONE or FAILED with each one's name.
# Needs: Deployment web (label app=web) with HTTP on 8080, a shell, tar; $IMAGE, an image that is on the nodes.
try() {
  local name=$1
  shift
  if said=$(timeout 90 bash -c "$*" 2>&1); then echo "DONE $name"; else echo "FAILED $name: $(tail -c 400 <<<"$said" | tr '\n' ' ')"; fi
}
pod=$(kubectl get pods -l app=web -o name | head -1)
export pod IMAGE
tty() { script -qec "$1" /dev/null; }
export -f tty
cd /tmp
try whoami 'kubectl auth whoami | grep -q oncall'
try get 'kubectl get pods -o wide | grep -q Running && kubectl get all,cm,secret,ing,pvc -o name | grep -q deployment'
try get-all 'kubectl get pods -A | grep -q kube-system && kubectl get nodes -o yaml | grep -q kubeletVersion'
try describe 'kubectl describe $pod | grep -q "Node:" && kubectl describe node | grep -q "Allocated resources"'
try explain 'kubectl explain deployment.spec.strategy | grep -q rollingUpdate'
try api-resources 'kubectl api-resources | grep -q deployments && kubectl api-versions | grep -q apps/v1'
try events 'kubectl events | grep -q web && kubectl get events --sort-by=.lastTimestamp | grep -q web'
try logs 'kubectl logs $pod --tail=3 | grep -q line'
try logs-follow 'timeout 8 kubectl logs -f $pod --tail=1 > follow; test $(grep -c line follow) -ge 3'
try exec 'test "$(kubectl exec $pod -- echo hi)" = hi'
try exec-stdin 'test "$(echo typed | kubectl exec -i $pod -- cat)" = typed'
try exec-tty 'tty "kubectl exec -it $pod -- sh -c \"test -t 0 && test -t 1 && echo terminal\"" | grep -q terminal'
try exec-status 'kubectl exec $pod -- sh -c "exit 7"; test $? = 7'
try exec-large 'test $(kubectl exec $pod -- head -c 3000000 /dev/zero | wc -c) = 3000000'
try attach 'timeout 8 kubectl attach $pod > attached; grep -q line attached'
try cp 'seq 50000 > here; kubectl cp here ${pod#pod/}:/tmp/there; kubectl cp ${pod#pod/}:/tmp/there back; cmp here back'
try port-forward 'kubectl port-forward deployment/web 18080:8080 > pf & f=$!; for i in $(seq 60); do grep -q Forwarding pf && break; sleep 0.5; done; for i in 1 2 3; do curl -sf http://127.0.0.1:18080/ | grep -q served || exit 1; done; kill $f'
try apply 'kubectl create configmap a --from-literal=k=1 --dry-run=client -o yaml > a.yaml; kubectl apply -f a.yaml; sed -i s/\"1\"/\"2\"/ a.yaml; kubectl diff -f a.yaml; kubectl apply -f a.yaml; test $(kubectl get cm a -o jsonpath={.data.k}) = 2'
try apply-server-side 'kubectl apply --server-side --field-manager=me -f - <<<"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\"}}"'
try edit 'echo "sed -i \"s/^  k: .*/  k: edited/\" \$1" > ed; EDITOR="sh ./ed" kubectl edit cm a; test $(kubectl get cm a -o jsonpath={.data.k}) = edited'
try patch 'kubectl patch deployment web -p "{\"spec\":{\"minReadySeconds\":1}}" && kubectl patch cm a --type json -p "[{\"op\":\"remove\",\"path\":\"/data/k\"}]"'
try label 'kubectl label deployment web seen=yes && kubectl annotate deployment web seen=yes && kubectl label deployment web seen-'
try set 'kubectl set env deployment/web COLOUR=blue && kubectl rollout status deployment/web --timeout=80s'
try rollout-history 'kubectl rollout history deployment/web | grep -q 2'
try rollout-undo 'kubectl rollout undo deployment/web && kubectl rollout status deployment/web --timeout=80s'
try rollout-restart 'kubectl rollout restart deployment/web && kubectl rollout status deployment/web --timeout=80s'
try scale 'kubectl scale deployment web --replicas=2 && kubectl wait deployment web --for=jsonpath={.status.readyReplicas}=2 --timeout=80s'
try autoscale 'kubectl autoscale deployment web --min=1 --max=2 && kubectl delete hpa web'
try expose 'kubectl expose deployment web --port=80 --target-port=8080 && kubectl get endpointslices -l kubernetes.io/service-name=web -o name | grep -q web'
try watch 'kubectl get cm -w -o name > watched & w=$!; sleep 2; kubectl create cm seen-by-watch; for i in $(seq 20); do grep -q seen-by-watch watched && break; sleep 0.5; done; kill $w; grep -q seen-by-watch watched'
try wait 'kubectl wait pod -l app=web --for=condition=Ready --timeout=60s'
try run 'kubectl run tool --image=$IMAGE --image-pull-policy=IfNotPresent --restart=Never --command -- sh -c "echo ran" && kubectl wait pod tool --for=jsonpath={.status.phase}=Succeeded --timeout=80s && kubectl logs tool | grep -q ran'
try run-tty 'tty "kubectl run shell --rm -it --image=$IMAGE --image-pull-policy=IfNotPresent --restart=Never -- sh -c \"sleep 3; echo in a shell\"" | grep -q "in a shell"'
pod=$(kubectl get pods -l app=web --field-selector=status.phase=Running -o name | head -1)
try debug 'kubectl debug $pod --image=$IMAGE --image-pull-policy=IfNotPresent -c dbg -- sh -c "echo debugged; sleep 1"; for i in $(seq 60); do kubectl logs $pod -c dbg 2>/dev/null | grep -q debugged && exit 0; sleep 1; done; exit 1'
try debug-target 'kubectl debug $pod --image=$IMAGE --image-pull-policy=IfNotPresent -c dbg2 --target=web --profile=baseline -- sh -c "cat /proc/1/cmdline; echo debugged"; for i in $(seq 60); do kubectl logs $pod -c dbg2 2>/dev/null | grep -q debugged && exit 0; sleep 1; done; exit 1'
try debug-copy 'kubectl debug $pod --copy-to=copied --image=$IMAGE --image-pull-policy=IfNotPresent -c dbg -- sleep 1 && kubectl delete pod copied --wait=false'
try cordon 'n=$(kubectl get $pod -o jsonpath={.spec.nodeName}); kubectl cordon $n && kubectl uncordon $n && kubectl taint node $n walls=x:PreferNoSchedule && kubectl taint node $n walls-'
try create-token 'kubectl create token default | grep -q ey'
try secret 'kubectl create secret generic s --from-literal=p=q && test $(kubectl get secret s -o jsonpath={.data.p} | base64 -d) = q'
try job 'kubectl create job j --image=$IMAGE -- true && kubectl delete job j'
try delete 'kubectl delete $pod --wait=false && kubectl delete cm a b seen-by-watch'
try raw 'kubectl get --raw /version | grep -q gitVersion && kubectl get --raw /apis/apps/v1/namespaces/$(kubectl config view --minify -o jsonpath={..namespace})/deployments | grep -q web'
try coredns 'kubectl -n kube-system get cm coredns -o jsonpath={.data.Corefile} | grep -q kubernetes && kubectl -n kube-system logs -l k8s-app=kube-dns --tail=1'
if kubectl get --raw /apis/metrics.k8s.io/v1beta1/nodes >/dev/null 2>&1; then try top 'kubectl top nodes | grep -q % && kubectl top pods -A'; else echo "ABSENT top"; fi
