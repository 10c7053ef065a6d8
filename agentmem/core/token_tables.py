"""What the token estimate knows: fitted once against real encodings, kept as plain data.

Words and marks listed here are one token in o200k_base, cl100k_base and the
Claude tokenizer, with or without the space before them. `PAIRS` prices every
other Latin word letter by letter. `docs/tokens.md` tells how they were made.
"""

from __future__ import annotations

_WORDS = """
abbreviation able about above ac access account across action activate activated activation active
activities activity add added addition additional address advice affect affects after again
against age agreement air alignment all allocate allow along alpha already also alt alternative
although always am amazing among amount amp an analysis anchor and angle animal animals another
anti any anything apache api app appear append applicable application applications applied apply
approximate arch are area arg args argument arguments argv arm around array arrow art as assert
asset associated association async at attack attribute attributes auth authentication auto
automatically available avoid away aws back backend background bad ball bar base based basic
basketball be beach beauty because been before begin behavior behind being below best beta better
between big bike binary bind binding bit black blast block blood blue bodies body bone book books
bool boolean border both bottom bowl box boy boys branch brands break bring brings brown browser
bucket buf buffer build building bus business but button buttons by byte bytes ca cache call
callback called camera camping can cancer cannot car care cars case cases cat catch cause cd ce
cell cells center certificate change changed changes channel chapter char character
characteristics characters charity check child children choose chronic chunks city class classes
clear click client climbing clinical clone close closed clothing cloud cluster code collection
color colors colour column com combination come coming command commands comment commit common
community compare compared comparison complete complex component components compute condition
conditions config configuration connect connection consider considered console const constant
contain container containing contains content contents context contrast control controls convert
cool copy copyright core corresponding could count create created creates creating creation
critical cross cs css current currently cursor custom cutting cylinder cylinders cylindrical da
dairy dance data database date day days db de dead death debug decimal decode def default defer
define defined definition delay delete demonstrate dependency deprecated derived description
design desktop destination details determine determined dev developed developer development device
dialog dialogue dict did didn diet diff difference different differentiation dimensional dining
dir direct direction directly directory disease dishes dislike display displayed distance
distributed distribution distributions div do doc docs document documentation does doesn dog dogs
doing domain don done double down drag draw dreams due during each early east eating echo edge
edges effect effective effects either element elements elif else email empty en enable encoded
encoding end ended endif endpoint energy engaging engine enjoy enough entity entries entry enum
environment eq equal equation equations error errors escape essential even event events everyone
evidence ex example examples except exception execution exercise exist existing exit expand
expected experience experiences experimental exports express expression ext extension extern
external extra face factor factors failed failure false family fan fantasy far fashion fast
favicon favorite fe feature features feel felt fetch few fi field fields file filename files films
filter final finally find finding first fitness fixed flag flags flat flight float flow flows
fluid flutter focus focused folder follow following font foo food for force form format formation
forward found four frame free friends from front full fun func function functional functions
further future game games gaming gas gateway gene general generate generated generator genes get
gets getting girl git github give given glad global go goals going good google got grass great
greater green ground group groups growth gt gtk guide guitar had hair hand handle handler happened
happy hard has hash hat have having he head header headers health hear heat height help helping
helps her here hey hi hidden high higher him his ho holding home hope horizontal horse host how
however href html http https human ice icon id idea identified identifier identity if ignore image
impact implement implementation import important in include included including increase increased
increases incredible independent index indicate individual induced inflammatory influence info
information init initial inline inner input insert insertion inside inspired inspiring install
installed instance instead int integer interaction interesting interface internal interval into
invalid investigated investigation involve involved involving io ip is isn issue issues it item
items iter iterator its itself jet job join journey joy js json jumping just keep key keyboard
keys keyword kids kind know known label lambda lang language large last later layer leading learn
learning least leather left len length less let letter level levels li lib library license life
light like likely limit limited line linear lines link links linux list lists little live load
loader loading local location lock log logo logs long look looking looks loss lost lot love low
lower lt mach machine made main major make makes makeup making man manager many map mark marker
mask mass match matches matching materials max maximum may me mean means measured measurements
mechanism mechanisms media mediated medium members memories memory men mental menu merge message
messages meta metadata method methods mi might min minimum missing mm mode model models modified
modify module modules molecular monitor month more mortality most motivated mount mouse move movie
movies much multi multiple music must my myself name named names namespace natural nature nav near
necessary need needed negative network never new next nice no node non nonce none normal not note
notice now null num number numbers numeric obj object objects observed obtain obtained of off
offset often old on once one ones onion online only op open opening operation operations ops opt
option optional options or order org organization origin original os other others otherwise our
out outdoor output outside over overall override own owner package packages page pair paper
paragraph param parameter parameters params parent park parse parser parsing part partial
particular pass passed passion past patch path pathway patients pattern people per performance
performing person pet photo physical piano pic picture pixel place places plan planning plate
platform play played playing please plus png point pointer policy pool population port position
positive possible post potato potential power pre prefer prefix presence present presented
pressure previous previously primary primitive print private pro problem problems process
production products profile program progress project projects prop properties property props
protein proteins protocol provide provider provides proxy ps public pull push pushing put putting
py python quality query race raise raises range rate rates rather ratio raw re reach read reading
real really receive received recent recently receptor recommend record red reduce ref reference
references region register registry regular regulation rel related relative release remember
remote remove rename replace report repository req request requests require required requires res
research reserved resistance resource resources response restaurants result results retrieve
return returned returns review rewarding riding right rights risk road rock role room root route
routine rows rs rule rules run running runtime safe same sample sans save say scale scaling schema
scope score screen script scroll search second secondary section security see seeing seen select
selected selection self send sequence series server service session set setting settings several
severe sha shape share shared she shell shells shelter shift shirt shock short should show showed
shown shows side sidebar sign signal signaling signature significant significantly similar simple
since singing single site sites sitting size sk skin skip slender slicing slider small snow so
socket software solution solutions some someone something soon sort sounds source sources space
span spec special specific specified specify speed split sports src st stack stage standard
standing start starting stat state static status stay std step still stop storage store str
strategy stream street strength stress strict string strong strongly struct structure studies
studio study stuff style stylesheet sub subject success such suggest summary summer super support
supported sure surface survival svg switch symbol sync sys system systems tab table tag tags take
taking talk target task team tell temperature template temporary term terminal terms test testing
tests text tf th than thanks that the their them theme then theoretical theory therapy there these
they thing things think this those thread three through thus time timeout times timestamp tissue
title tk to together toggle token too toolbar tools top total tough track traditional training
trait transfer transition transport treated treatment tree trip true try trying tunnel tuple
turbulent two txt type typedef typename types uint unable undefined under unexpected unexpectedly
unicode uniform unique unknown unless unsigned unsupported up upcoming update updated updates url
us usage use used useful user users uses using utf val valid value values var variable variables
various ve vector vehicle vehicles velocity version vertical very via video view vim virtual visit
visiting visual void wait walking wall want warning was watch water wave way ways we wear wearing
web week weekend weight well went were west what when where whether which while white who whole
why wide widget widgets width wild will win wind window windows wing wings with within without
woman women won word words work working workout works workspace world worth would wrap wrapper
write writing written www xml yeah year years yellow yet you young your yourself zero zone
"""
COMMON_WORDS = frozenset(_WORDS.split())

_MARKS = r'''
!= "$ "% ") "), "); ", "," ". "/ ": ":" ":{" "; "> ">< "></ "] "}, ${ %. && '% ') '), '); ', '.
': '; '\ '] (! (" ($ (% (' (( () ()) (), (). (): (); (){ ([ (_ (__ ({ )( )) )); ), ). ): ); ){
*) ** */ += ," ,\" ,{ -- -> .""" .. .</ ._ .__ /* /** // /_ :" :// :: :` ;< </ <_ =" ="# ="../
=' =( == => =\" >" >& >, >< ></ >= [" [' [- [] \" \"> ]) ], ]. ]: ]; _< __ __( __, `, `` {} ||
}) }); }, }," };
'''
COMMON_MARKS = frozenset(_MARKS.split())

# Tenths of a token that a letter adds after the letter of its row: a to z, then any other
# Latin letter; the last row is for the first letter of a word.
PAIRS = (
    "511054044520107080005332049",  # a
    "354306585150453481034687069",  # b
    "372307714700682470204787159",  # c
    "776637498975677894269798399",  # d
    "573044269884436451039530399",  # e
    "587311383951653571324775199",  # f
    "988637207996538792589999379",  # g
    "548517675965234683338777079",  # h
    "100000058430000050006060309",  # i
    "466327876536764666174999699",  # j
    "756215467875647397358869389",  # k
    "576216565962654597127598089",  # l
    "446206595855153096156888399",  # m
    "572023047745545595007367369",  # n
    "331042056620101190011301069",  # o
    "556416437951574141107877289",  # p
    "766469757881569642430655688",  # q
    "564115177944335394038558089",  # r
    "895746848986778488028978199",  # s
    "674325715975465591138949099",  # t
    "100002052430005080009460249",  # u
    "368605444655654795458636189",  # v
    "587317515754724591169954399",  # w
    "864436867975368297338892279",  # x
    "998779899999869699579989879",  # y
    "567405867965746697467955038",  # z
    "782438569953522763449856148",  # é, ñ, ß …
    "997478679988899796479979699",  # first letter
)

# Hundredths of a token a character costs, by the code point its script begins at: the first of
# a run and each further one, in o200k_base, cl100k_base and p50k_base.
_BYTES_2 = (200, 200) * 3
_BYTES_3 = (300, 300) * 3
_BYTES_4 = (400, 400) * 3
_SCRIPTS = (
    (0x0250, _BYTES_2),  # phonetic, modifiers, combining marks
    (0x0370, (110, 48, 140, 110, 190, 125)),  # Greek
    (0x0400, (105, 37, 135, 63, 175, 128)),  # Cyrillic
    (0x0458, (160, 100, 180, 165, 200, 200)),  # Cyrillic of other languages
    (0x0530, (180, 38, *_BYTES_2[2:])),  # Armenian
    (0x0590, (90, 60, 115, 165, 120, 175)),  # Hebrew
    (0x0600, (85, 52, 105, 108, 120, 165)),  # Arabic
    (0x0670, (110, 85, 150, 150, 200, 200)),  # Arabic of other languages
    (0x0700, _BYTES_2),  # Syriac, Thaana, N'Ko
    (0x0900, (115, 42, 200, 112, 200, 200)),  # Devanagari
    (0x0964, (115, 115, 150, 150, 200, 200)),  # its full stop
    (0x0966, (125, 100, 200, 150, 200, 200)),  # its digits
    (0x0980, (135, 48, 240, 140, 250, 250)),  # Bengali
    (0x0A00, (115, 80, 200, 200, 300, 300)),  # Gurmukhi
    (0x0A80, (140, 48, 200, 200, 300, 300)),  # Gujarati
    (0x0B00, (145, 115, *_BYTES_3[2:])),  # Odia
    (0x0B80, (205, 40, 290, 150, 300, 300)),  # Tamil
    (0x0C00, (150, 50, 200, 200, 300, 300)),  # Telugu
    (0x0C80, (190, 40, 200, 200, 300, 300)),  # Kannada
    (0x0D00, (205, 35, 250, 175, 300, 300)),  # Malayalam
    (0x0D80, (135, 70, 200, 200, 300, 300)),  # Sinhala
    (0x0E00, (105, 55, 150, 105, 200, 200)),  # Thai
    (0x0E80, (200, 200, 300, 250, 300, 300)),  # Lao
    (0x0F00, (250, 160, 250, 215, 300, 285)),  # Tibetan
    (0x1000, (125, 65, 230, 215, 300, 300)),  # Burmese
    (0x10A0, (115, 45, 230, 210, 300, 300)),  # Georgian
    (0x1100, _BYTES_3),
    (0x1780, (115, 75, 220, 175, 300, 300)),  # Khmer
    (0x1800, _BYTES_3),
    (0x1E00, (120, 110, 200, 200, 300, 300)),  # Latin with two marks (Vietnamese)
    (0x1F00, _BYTES_3),
    (0x2000, (160, 160, 160, 160, 180, 180)),  # dashes, quotation marks
    (0x2028, _BYTES_2),  # line and direction marks
    (0x2030, (160, 160, 180, 180, 200, 200)),
    (0x2060, _BYTES_2),
    (0x2070, (200, 200, 230, 230, 300, 300)),  # currency, arrows, mathematics
    (0x2500, (110, 100, 130, 125, 160, 150)),  # boxes
    (0x2600, _BYTES_3),  # dingbats
    (0x3000, (115, 105, 115, 110, 140, 140)),  # CJK punctuation
    (0x3040, (115, 66, 120, 98, 125, 115)),  # kana
    (0x3100, _BYTES_3),
    (0x4E00, (120, 100, 150, 145, 240, 230)),  # ideographs in daily use
    (0xA000, _BYTES_3),
    (0xAC00, (160, 64, 200, 108, 300, 285)),  # Hangul
    (0xD7A4, _BYTES_3),
    (0xFE00, (200, 200, 200, 200, 300, 300)),  # variation selectors
    (0xFF00, (130, 125, 140, 135, 300, 300)),  # full-width forms
    (0xFFF0, _BYTES_3),
    (0x10000, _BYTES_4),
    (0x1F000, _BYTES_3),  # emoji
    (0x1FB00, _BYTES_4),
)
SCRIPT_STARTS = tuple(start for start, _ in _SCRIPTS)
SCRIPT_PRICES = tuple(prices for _, prices in _SCRIPTS)
