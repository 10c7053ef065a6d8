"""Words whose full stop does not end a sentence, lower-cased, for several languages."""

from __future__ import annotations

_TITLES = """
    mr mrs ms mx dr drs prof profs rev hon st ste sr jr esq messrs mme mmes mlle mgr fr br
    gen col lt ltd sgt cpl pvt capt cmdr cdr maj adm gov sen rep pres supt insp det amb
    atty asst assoc sec'y treas dept hr hrn frl fam dipl ing mag sig sigg dott avv geom
    srs sra sras srta sres dña dra dras exmo ilmo lic ud uds vd vds dhr mevr mw inż
    проф акад доц инж тов ул им
"""
_WORK = """
    inc ltd co corp bros cie plc mfg intl natl univ inst assn assoc dept div govt dist
    ave blvd rd hwy pkwy sq bldg ste str strasse pl
"""
_LATIN = """
    vs etc al et cf ca viz ibid ff eds ed trans repr approx appx esp incl excl resp
    misc tel ext avg abbr abbrev anon attn cont
    dep e.g eg ie fem masc orig poss prev prob pron publ
    subj suppl syn usu vol vols nb ps qv sc seq ser illus cit
"""
_MEASURES = """
    lb lbs oz ft yd yds mi hr hrs mins secs yr yrs mo mos wk wks km cm mm kg mg
    bbl cu pt qt tbsp tsp mph kph rpm
"""
_CALENDAR = """
    jan feb febr apr jun jul aug sep sept oct nov dec mon tue tues wed weds thu thur thurs fri
    okt dez janv févr avr juil déc ene abr dic genn febbr
"""
_PARTS = "fig figs eq eqs eqn eqns pp para paras ch chap chaps nos nr nrs tbl tbls vers ver pg pgs"
_GERMAN = """
    bzw usw evtl ggf inkl exkl vgl sog abs bd bde hrsg jh jhd mio mrd std zzgl zt bspw allg
    entspr urspr geb gest hl verh vorm nachm tägl wöchentl monatl jährl ungef usf uva
    österr dt engl frz lat griech
"""
_ROMANCE = """
    env av apr éd coll bd boul tél réf pag pagg pág págs núm núms aprox ej gral dpto
    admón avda cta ctas ecc seg tít trad ee uu
"""
_SLAVIC = """
    гг др пр напр см стр рис руб тыс млн млрд табл обл кв гл ред изд соч сокр
    tzw itd itp ul tzn wg zob godz tys mln mld im
"""
_NORDIC = "bijv enz blz mej dvs osv kl bl fl ekr forts resp iht jf mht vb örn yy"

_STATES = """
    ala ariz ark calif colo conn del fla ga ill ind kan kans ky la md mass mich minn miss mont
    neb nev okla ore pa penn tenn tex va vt wash wis wyo ont que mt
"""

_BEFORE_NUMBERS = """
    no art arts sec sect tab table pos item app appendix part mar sun sat est min max apt ref
    refs ex op cap fax loc zi
"""

_AFTER_ORDINALS = """
    januar jänner februar märz april mai juni juli august september oktober november dezember
    jahrhundert jahrhunderts auflage klasse mal platz geburtstag quartal liga fc sv
"""

ABBREVIATIONS = frozenset(
    " ".join(
        (_TITLES, _WORK, _LATIN, _MEASURES, _CALENDAR, _PARTS, _GERMAN, _ROMANCE, _SLAVIC, _NORDIC)
    ).split()
)
"""Never the end of a sentence, however written."""

CAPITALISED_ABBREVIATIONS = frozenset(_STATES.split())
"""Never the end of a sentence when written with a capital: "Mass." but not "mass."."""

NUMBER_ABBREVIATIONS = frozenset(_BEFORE_NUMBERS.split())
"""Not the end of a sentence when a number follows: "No. 5"."""

WORDS_AFTER_ORDINAL = frozenset(_AFTER_ORDINALS.split())
"""Words before which a number with a stop is an ordinal: "3. Oktober"."""
