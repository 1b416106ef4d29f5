# Micro trace of FullTcp (agent FullTcp, that is Reno, or FullTcp/Sack): one transfer of 1 MB over 100 Mb/s of 20 ms each way; packets are lost by number in both directions,
# and data marked by number if there is any to mark (then with ECN).
#   ns micro_full.tcl out RAW.tr lost "0 5 ..." acks_lost "..." marked "..."      (numbers count from 0)
source [file join [file dirname [info script]] common.tcl]
parse_args {agent FullTcp out /dev/stdout lost 100000 acks_lost 100000 marked "" bytes 1000000 win 45 seg 1460}
Agent/TCP set window_ $P(win)
Agent/TCP/FullTcp set segsize_ $P(seg)
Agent/TCP/FullTcp set segsperack_ 2
if {$P(marked) != ""} { Agent/TCP set ecn_ 1 }
set ns [new Simulator]
set trace [open $P(out) w]
$ns trace-all $trace
set a [$ns node]; set b [$ns node]
$ns duplex-link $a $b 100Mb 20ms DropTail
foreach {from to lost} [list $a $b $P(lost) $b $a $P(acks_lost)] {
    set losses [new ErrorModel/List]; $losses droplist $lost; $losses drop-target [new Agent/Null]
    $ns lossmodel $losses $from $to
}
if {$P(marked) != ""} {
    set marks [new ErrorModel/List]; $marks set markecn_ true; $marks droplist $P(marked)
    $ns lossmodel $marks $a $b
}
set s [new Agent/TCP/$P(agent)]; set d [new Agent/TCP/$P(agent)]
$ns attach-agent $a $s; $ns attach-agent $b $d; $ns connect $s $d; $d listen
Agent/TCP/FullTcp instproc done_data {} {return 0}
set ftp [new Application/FTP]; $ftp attach-agent $s
$ns at 0 "$ftp send $P(bytes)"
proc poll {} { global ns s P trace; if {[$s set ack_] >= $P(bytes)} { close $trace; exit 0 }; $ns at [expr [$ns now]+0.01] poll }
$ns at 0.01 poll
$ns run
