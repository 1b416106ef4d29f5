# replay: transfers of a schedule (tools/replaylab.c; /host/schedule: `start_s bytes`) through AQM, behind HTB
# args: RATE=6mbit RTT=80 (ms, all in the ACK path) AQM='cake unlimited besteffort flows' ECN=0|1 END= (s) TAG=
#       ROOT=1: AQM is the root and shapes by itself
. /host/topo.inc; . /host/args
up $RATE $((RTT/2))ms
mac(){ $IP -n $1 link show dev $2 | awk '/ether/{print $2}'; }
neighbour(){ $IP -n $1 neigh replace $2 dev $3 lladdr $(mac $4 $5) nud permanent; }   # no ARP in the measured queue
neighbour c 10.9.0.254 v0 r r0; neighbour r 10.9.0.1 r0 c v0; neighbour s 10.9.1.254 v0 r r1; neighbour r 10.9.1.2 r1 s v0
set_(){ for n in c s; do $IP netns exec $n sh -c "echo '$2' > /proc/sys/net/$1" || echo "NO $1"; done; }
echo '196608 262144 393216' > /proc/sys/net/ipv4/tcp_mem   # no memory pressure
set_ ipv4/tcp_ecn ${ECN:-0}; set_ ipv4/tcp_rmem '4096 8388608 16777216'; set_ ipv4/ip_local_port_range '1024 65000'
set_ core/somaxconn 60000; set_ ipv4/tcp_max_syn_backlog 60000
set_ core/txrehash 0   # else a sender that times out gets another hash, and so another queue
if [ "$ROOT" = 1 ]; then $IP netns exec r $TC qdisc del dev r1 root; $IP netns exec r $TC qdisc add dev r1 root handle 10: $AQM; else aqm $AQM; fi
sleep 1
/bin/replaylab tag=$TAG file=/host/schedule end=$END
$IP netns exec r $TC -s -d qdisc show dev r1 | sed 's/^/# /'
echo "DONE $TAG"
